import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.PrintWriter;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

/**
 * The patterns of benchmarks/patterns.py by Flink CEP, with one slot, state on the heap and no checkpoints.
 *
 * <p>Arguments: the name of the pattern, the file with the events, how many they are, how many runs to make, and a file
 * for the wall-clock seconds, the CPU seconds, the number of matches and the sum of their timestamps of each run.
 */
public class FlinkPatterns {
    /** An event, as Flink's serializer of POJOs wants it. */
    public static class Event {
        public long key;
        public long millis;
        public double price;
        public boolean ok;

        public Event() {}
    }

    private static final AtomicLong MATCHES = new AtomicLong();
    private static final AtomicLong SUM = new AtomicLong();

    private static long[] keys;
    private static long[] times;
    private static double[] prices;
    private static boolean[] oks;

    private static class FromMemory implements GeneratorFunction<Long, Event> {
        @Override
        public Event map(Long number) {
            int index = number.intValue();
            Event event = new Event();
            event.key = keys[index];
            event.millis = times[index];
            event.price = prices[index];
            event.ok = oks[index];
            return event;
        }
    }

    private static class Price extends SimpleCondition<Event> {
        private final double from;
        private final double to;

        Price(double from, double to) {
            this.from = from;
            this.to = to;
        }

        @Override
        public boolean filter(Event event) {
            return event.price >= from && event.price < to;
        }
    }

    private static class Ok extends SimpleCondition<Event> {
        private final boolean ok;

        Ok(boolean ok) {
            this.ok = ok;
        }

        @Override
        public boolean filter(Event event) {
            return event.ok == ok;
        }
    }

    private static Event last(IterativeCondition.Context<Event> context, String stage) throws Exception {
        Event last = null;
        for (Event event : context.getEventsForPattern(stage)) {
            last = event;
        }
        return last;
    }

    private static class Falls extends IterativeCondition<Event> {
        @Override
        public boolean filter(Event event, Context<Event> context) throws Exception {
            Event down = last(context, "down");
            return event.price < (down == null ? last(context, "start") : down).price;
        }
    }

    private static class Rises extends IterativeCondition<Event> {
        @Override
        public boolean filter(Event event, Context<Event> context) throws Exception {
            Event down = last(context, "down");
            return down != null && event.price > down.price;
        }
    }

    private static class MatchTimes extends PatternProcessFunction<Event, Long> {
        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<Long> out) {
            MATCHES.incrementAndGet();
            SUM.addAndGet(context.timestamp());
            out.collect(context.timestamp());
        }
    }

    private static Pattern<Event, ?> smallThenLarge(double small) {
        return Pattern.<Event>begin("small")
                .where(new Price(0, small))
                .followedBy("large")
                .where(new Price(90, 101))
                .within(Duration.ofSeconds(10));
    }

    private static Pattern<Event, ?> pattern(String name) {
        switch (name) {
            case "small-large":
                return smallThenLarge(10);
            case "rare":
                return smallThenLarge(0.1);
            case "falling":
                return Pattern.<Event>begin("start", AfterMatchSkipStrategy.skipPastLastEvent())
                        .next("down")
                        .where(new Falls())
                        .oneOrMore()
                        .consecutive()
                        .next("up")
                        .where(new Rises());
            case "failures":
                return Pattern.<Event>begin("fail")
                        .where(new Ok(false))
                        .times(3)
                        .followedBy("success")
                        .where(new Ok(true))
                        .within(Duration.ofSeconds(10));
            default:
                throw new IllegalArgumentException("there is no pattern " + name);
        }
    }

    private static void read(Path file, int events) throws IOException {
        keys = new long[events];
        times = new long[events];
        prices = new double[events];
        oks = new boolean[events];
        try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(file), 1 << 20))) {
            for (int index = 0; index < events; index++) {
                keys[index] = in.readLong();
                times[index] = in.readLong();
                prices[index] = in.readDouble();
                oks[index] = in.readBoolean();
            }
        }
    }

    private static long processorNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    private static void run(String name, int events, PrintWriter out) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1);
        MATCHES.set(0);
        SUM.set(0);
        DataStream<Event> source =
                environment.fromSource(
                        new DataGeneratorSource<>(new FromMemory(), events, TypeInformation.of(Event.class)),
                        WatermarkStrategy.<Event>forMonotonousTimestamps()
                                .withTimestampAssigner((event, before) -> event.millis),
                        "events");
        CEP.pattern(source.keyBy(event -> event.key, Types.LONG), pattern(name))
                .inEventTime()
                .process(new MatchTimes(), Types.LONG)
                .sinkTo(new DiscardingSink<>());
        long before = processorNanos();
        double seconds = environment.execute(name).getNetRuntime() / 1e3;
        out.println(seconds + " " + (processorNanos() - before) / 1e9 + " " + MATCHES.get() + " " + SUM.get());
    }

    public static void main(String[] arguments) throws Exception {
        int events = Integer.parseInt(arguments[2]);
        read(Path.of(arguments[1]), events);
        try (PrintWriter out = new PrintWriter(arguments[4])) {
            for (int run = 0; run < Integer.parseInt(arguments[3]); run++) {
                run(arguments[0], events, out);
            }
        }
        System.exit(0);
    }
}
