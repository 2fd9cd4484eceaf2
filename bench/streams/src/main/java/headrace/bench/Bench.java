package headrace.bench;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerInterceptor;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;

/** The works of the bench in Kafka Streams. It is told what to do by key=value, and says on its standard output what happens. */
public final class Bench {
    private static final long WINDOW = 60_000;
    private static final long ADVANCE = 15_000;
    private static final long GAP = 15_000;
    private static final long DIFF = 20_000;
    private static final byte MARK = '!';
    private static final AtomicBoolean FIRST = new AtomicBoolean();

    private Bench() {}

    public static void main(String[] args) throws Exception {
        Map<String, String> spec = new HashMap<>();
        for (String arg : args) {
            int at = arg.indexOf('=');
            spec.put(arg.substring(0, at), arg.substring(at + 1));
        }
        boolean inMemory = spec.get("peer").equals("streams-memory");
        Properties props = new Properties();
        props.put(StreamsConfig.APPLICATION_ID_CONFIG, spec.get("app"));
        props.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, spec.get("brokers"));
        props.put(StreamsConfig.STATE_DIR_CONFIG, spec.get("dir"));
        props.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        props.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        props.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, spec.get("threads"));
        props.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        props.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
        // In its favour: the topic of a table is its changelog, so that rows are not written once more.
        props.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.REUSE_KTABLE_SOURCE_TOPICS);
        props.put(StreamsConfig.consumerPrefix("interceptor.classes"), FirstBatch.class.getName());
        props.put("enable.metrics.push", false);
        boolean noCache = Boolean.parseBoolean(spec.get("nocache"));
        if (noCache) {
            props.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        }
        if (inMemory) {
            props.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, BuiltInDslStoreSuppliers.InMemoryDslStoreSuppliers.class);
        }

        StreamsBuilder builder = new StreamsBuilder(new TopologyConfig(new StreamsConfig(props)));
        build(builder, spec);
        KafkaStreams streams = new KafkaStreams(builder.build(props), props);

        CountDownLatch over = new CountDownLatch(1);
        AtomicInteger exit = new AtomicInteger();
        streams.setUncaughtExceptionHandler(e -> {
            e.printStackTrace();
            exit.set(1);
            over.countDown();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                say("ready");
            }
        });
        streams.setGlobalStateRestoreListener(new Restores(Integer.parseInt(spec.get("partitions"))));
        System.out.println("settings exactly_once_v2, commit.interval.ms=100, " + spec.get("threads") + " thread(s), stores in "
            + (inMemory ? "memory" : "RocksDB") + " with their defaults, " + (noCache ? "no cache" : "cache 10 MiB (the default: of several"
            + " updates of a key in one transaction the last may be the only one written)") + "; heap at most " + Runtime.getRuntime().maxMemory() / (1 << 20) + " MiB, "
            + java.lang.management.ManagementFactory.getGarbageCollectorMXBeans().get(0).getName() + ", Java " + Runtime.version());

        Thread watch = new Thread(() -> {
            try {
                while (System.in.read() >= 0) { }
            } catch (java.io.IOException e) {
                // its other end is gone, too
            }
            over.countDown();
        });
        watch.setDaemon(true);
        watch.start();
        streams.start();
        over.await();
        streams.close(Duration.ofSeconds(20));
        System.exit(exit.get());
    }

    private static void build(StreamsBuilder builder, Map<String, String> spec) {
        String output = spec.get("output");
        KStream<byte[], byte[]> in = builder.stream(spec.get("input"));
        switch (spec.get("work")) {
            case "map" -> {
                KStream<byte[], byte[]> out = in.filter((k, v) -> (v[7] & 0xff) % 10 != 0);
                for (int i = 1; i < Integer.parseInt(spec.get("operators")); i++) {
                    out = out.mapValues(v -> v);
                }
                out.mapValues(Bench::marked).to(output);
            }
            case "count", "count-zipf", "restore" ->
                in.groupByKey().count(Materialized.<byte[], Long, KeyValueStore<Bytes, byte[]>>as("counts"))
                    .toStream().to(output, Produced.valueSerde(Serdes.Long()));
            case "tumbling" ->
                in.groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(WINDOW)))
                    .count(Materialized.<byte[], Long, WindowStore<Bytes, byte[]>>as("windows"))
                    .toStream().to(output, Produced.with(new WindowedSerdes.TimeWindowedSerde<>(Serdes.ByteArray(), WINDOW), Serdes.Long()));
            case "hopping" ->
                in.groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMillis(WINDOW)).advanceBy(Duration.ofMillis(ADVANCE)))
                    .count(Materialized.<byte[], Long, WindowStore<Bytes, byte[]>>as("windows"))
                    .toStream().to(output, Produced.with(new WindowedSerdes.TimeWindowedSerde<>(Serdes.ByteArray(), WINDOW), Serdes.Long()));
            case "session" ->
                in.filter((k, v) -> ByteBuffer.wrap(v).getLong() / 10_000 % 8 < 5)
                    .groupByKey().windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMillis(GAP)))
                    .count(Materialized.<byte[], Long, SessionStore<Bytes, byte[]>>as("windows"))
                    .toStream().to(output, Produced.with(new WindowedSerdes.SessionWindowedSerde<>(Serdes.ByteArray()), Serdes.Long()));
            case "sliding" ->
                in.groupByKey().windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(Duration.ofMillis(DIFF)))
                    .count(Materialized.<byte[], Long, WindowStore<Bytes, byte[]>>as("windows"))
                    .toStream().to(output, Produced.with(new WindowedSerdes.TimeWindowedSerde<>(Serdes.ByteArray(), DIFF), Serdes.Long()));
            case "join" -> {
                Serde<byte[]> bytes = Serdes.ByteArray();
                KTable<byte[], byte[]> table = builder.table(spec.get("table"), Consumed.with(bytes, bytes), Materialized.as("table"));
                in.join(table, Bench::joined).to(output);
            }
            case "latency" ->
                in.groupByKey().reduce((a, b) -> b, Materialized.<byte[], byte[], KeyValueStore<Bytes, byte[]>>as("last"))
                    .toStream().to(output);
            default -> throw new IllegalArgumentException("does not do the work " + spec.get("work"));
        }
    }

    private static byte[] marked(byte[] v) {
        byte[] c = v.clone();
        c[c.length - 1] = MARK;
        return c;
    }

    private static byte[] joined(byte[] v, byte[] row) {
        return ByteBuffer.allocate(v.length + 8).put(v).put(row, 0, 8).array();
    }

    private static synchronized void say(String what) {
        System.out.println(what(what));
    }

    private static String what(String what) {
        Instant now = Instant.now();
        return what + " " + (now.getEpochSecond() * 1_000_000_000L + now.getNano());
    }

    /** Tells of the first records that a consumer gets. */
    public static final class FirstBatch implements ConsumerInterceptor<byte[], byte[]> {
        @Override
        public ConsumerRecords<byte[], byte[]> onConsume(ConsumerRecords<byte[], byte[]> records) {
            if (!records.isEmpty() && FIRST.compareAndSet(false, true)) {
                say("first");
            }
            return records;
        }

        @Override
        public void onCommit(Map<TopicPartition, OffsetAndMetadata> offsets) {}

        @Override
        public void close() {}

        @Override
        public void configure(Map<String, ?> configs) {}
    }

    /** Tells when the stores of all partitions are restored. */
    private static final class Restores implements StateRestoreListener {
        private final AtomicInteger left;
        private final AtomicLong records = new AtomicLong();

        Restores(int partitions) {
            left = new AtomicInteger(partitions);
        }

        @Override
        public void onRestoreStart(TopicPartition partition, String store, long from, long to) {}

        @Override
        public void onBatchRestored(TopicPartition partition, String store, long end, long n) {}

        @Override
        public void onRestoreEnd(TopicPartition partition, String store, long total) {
            records.addAndGet(total);
            if (left.decrementAndGet() == 0) {
                System.out.println(what("restored") + " " + records.get());
            }
        }
    }
}
