-- Card fraud in SQL: what job.py does with functions, over the same topics, into topics of its own.
--
--     python examples/card_fraud/payments.py card-fraud.log      makes the topics and fills them
--     headrace sql -f examples/card_fraud/fraud.sql --checkpoint-dir checkpoints
--
-- A card that pays little and then, with its next payment within a minute, a lot is a thief's. Merchants' sales are added
-- up by minute. One job does both, reads the payments once, and has each result in its topic exactly once.

CREATE TABLE payments (
    card STRING,
    merchant STRING,
    amount DOUBLE,
    `time` BIGINT,
    ts AS TO_TIMESTAMP_LTZ(`time`, 3),
    WATERMARK FOR ts AS ts - INTERVAL '4' SECOND
) WITH (
    'connector' = 'log', 'path' = 'card-fraud.log', 'topic' = 'payments', 'group.id' = 'fraud-sql',
    'format' = 'json'
);

CREATE TABLE alerts (
    card STRING,
    merchant STRING,
    amount DOUBLE,
    `time` BIGINT,
    rule STRING
) WITH (
    'connector' = 'log', 'path' = 'card-fraud.log', 'topic' = 'alerts-sql', 'auto-create.partitions' = '2',
    'key.format' = 'raw', 'key.fields' = 'card', 'value.format' = 'json'
);

CREATE TABLE totals (
    merchant STRING,
    window_start TIMESTAMP_LTZ(3),
    payments BIGINT,
    total DOUBLE
) WITH (
    'connector' = 'log', 'path' = 'card-fraud.log', 'topic' = 'totals-sql', 'auto-create.partitions' = '2',
    'key.format' = 'raw', 'key.fields' = 'merchant', 'value.format' = 'json'
);

CREATE TEMPORARY VIEW payments_and_those_before AS
SELECT
    card, merchant, amount, `time`,
    LAG(amount) OVER (PARTITION BY card ORDER BY ts) AS amount_before,
    LAG(`time`) OVER (PARTITION BY card ORDER BY ts) AS time_before
FROM payments;

EXECUTE STATEMENT SET BEGIN
    INSERT INTO alerts
    SELECT card, merchant, amount, `time`, 'small, then large'
    FROM payments_and_those_before
    WHERE amount_before < 1.00 AND amount > 500.00 AND `time` <= time_before + 60000;

    INSERT INTO totals
    SELECT merchant, window_start, COUNT(*), SUM(amount)
    FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY merchant, window_start, window_end;
END;
