import java.util.Collection;
import java.util.Collections;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.lookup.PartialCachingAsyncLookupProvider;
import org.apache.flink.table.connector.source.lookup.cache.DefaultLookupCache;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.functions.AsyncLookupFunction;
import org.apache.flink.table.functions.FunctionContext;

/** The table of the lookup join: one row for each key, which comes after a while; some are kept. */
public class SlowTables implements DynamicTableSourceFactory {
    private static final ConfigOption<Long> MILLIS = ConfigOptions.key("millis").longType().noDefaultValue();
    private static final ConfigOption<Long> CACHE = ConfigOptions.key("cache").longType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "slow";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(MILLIS, CACHE);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        FactoryUtil.TableFactoryHelper helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new SlowTable(helper.getOptions().get(MILLIS), helper.getOptions().get(CACHE));
    }

    private static class SlowTable implements LookupTableSource {
        private final long millis;
        private final long cache;

        SlowTable(long millis, long cache) {
            this.millis = millis;
            this.cache = cache;
        }

        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            DefaultLookupCache rows = DefaultLookupCache.newBuilder().maximumSize(cache).build();
            return PartialCachingAsyncLookupProvider.of(new Weights(millis), rows);
        }

        @Override
        public DynamicTableSource copy() {
            return new SlowTable(millis, cache);
        }

        @Override
        public String asSummaryString() {
            return "slow";
        }
    }

    /** Answers after so many milliseconds. */
    public static class Weights extends AsyncLookupFunction {
        private final long millis;
        private transient ScheduledExecutorService clock;

        public Weights(long millis) {
            this.millis = millis;
        }

        @Override
        public void open(FunctionContext context) {
            clock = Executors.newSingleThreadScheduledExecutor();
        }

        @Override
        public CompletableFuture<Collection<RowData>> asyncLookup(RowData keyRow) {
            long key = keyRow.getLong(0);
            CompletableFuture<Collection<RowData>> found = new CompletableFuture<>();
            RowData row = GenericRowData.of(key, 2.0 * key);
            clock.schedule(() -> found.complete(Collections.singletonList(row)), millis, TimeUnit.MILLISECONDS);
            return found;
        }

        @Override
        public void close() {
            clock.shutdownNow();
        }
    }
}
