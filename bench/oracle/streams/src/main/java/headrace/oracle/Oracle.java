package headrace.oracle;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Properties;
import java.util.stream.Stream;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.SessionWindowedKStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
import org.apache.kafka.streams.kstream.TimeWindowedKStream;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.test.TestRecord;

/** Runs cases of windowed aggregates, one a line of its standard input, and answers each with a line of what Kafka Streams makes of it. */
public final class Oracle {
    private Oracle() {}

    /** What is asked. Times are milliseconds; a retention of 0 is the default one. */
    public static final class Case {
        public String window;
        public long size;
        public long advance;
        public long gap;
        public long diff;
        public long grace;
        public long retention;
        public String fold;
        public String emit;
        public List<In> in;
    }

    /** A record; what is null is left out. */
    public static final class In {
        public String k;
        public Long v;
        public long t;
    }

    /** A result. */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public static final class Out {
        public String k;
        public long s;
        public long e;
        public Long v;
        public long t;
    }

    /** What is answered: the results of each record, and how many records were dropped, for each window that they missed. */
    @JsonInclude(JsonInclude.Include.NON_NULL)
    public static final class Answer {
        public List<List<Out>> out = new ArrayList<>();
        public long dropped;
        public String error;
    }

    public static void main(String[] args) throws IOException {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "error"); // it warns of every record that is late
        ObjectMapper json = new ObjectMapper();
        PrintStream answers = System.out;
        System.setOut(System.err); // whoever else prints does not answer
        Path dir = Files.createTempDirectory("headrace-oracle-");
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                Answer answer;
                try {
                    answer = answer(json.readValue(line, Case.class), dir);
                } catch (Exception e) {
                    e.printStackTrace();
                    answer = new Answer();
                    answer.error = e.toString();
                }
                answers.write((json.writeValueAsString(answer) + "\n").getBytes(StandardCharsets.UTF_8));
                answers.flush();
            }
        } finally {
            delete(dir);
        }
    }

    private static Answer answer(Case c, Path dir) {
        Properties props = new Properties();
        props.put(StreamsConfig.APPLICATION_ID_CONFIG, "oracle");
        props.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "none:1");
        props.put(StreamsConfig.STATE_DIR_CONFIG, dir.toString());
        props.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        // Otherwise results on close come once a second of wall time, at most.
        props.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);

        StreamsBuilder builder = new StreamsBuilder();
        KGroupedStream<String, Long> group = builder.stream("in", Consumed.with(Serdes.String(), Serdes.Long()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()));
        KTable<Windowed<String>, Long> table = aggregate(c, group);
        if (c.emit.equals("final") || c.emit.equals("suppress")) {
            table = table.suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()));
        }
        table.toStream().map((k, v) -> KeyValue.pair(k.key() + "|" + k.window().start() + "|" + k.window().end(), v))
            .to("out", Produced.with(Serdes.String(), Serdes.Long()));

        Answer answer = new Answer();
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), props, Instant.EPOCH)) {
            TestInputTopic<String, Long> in = driver.createInputTopic("in", Serdes.String().serializer(), Serdes.Long().serializer());
            TestOutputTopic<String, Long> out = driver.createOutputTopic("out", Serdes.String().deserializer(), Serdes.Long().deserializer());
            for (In r : c.in) {
                in.pipeInput(r.k, r.v, r.t);
                List<Out> results = new ArrayList<>();
                while (!out.isEmpty()) {
                    TestRecord<String, Long> got = out.readRecord();
                    String[] key = got.key().split("\\|");
                    Out o = new Out();
                    o.k = key[0];
                    o.s = Long.parseLong(key[1]);
                    o.e = Long.parseLong(key[2]);
                    o.v = got.value();
                    o.t = got.timestamp();
                    results.add(o);
                }
                answer.out.add(results);
            }
            answer.dropped = driver.metrics().entrySet().stream()
                .filter(m -> m.getKey().name().equals("dropped-records-total"))
                .mapToLong(m -> ((Number) m.getValue().metricValue()).longValue()).sum();
        }
        return answer;
    }

    private static KTable<Windowed<String>, Long> aggregate(Case c, KGroupedStream<String, Long> group) {
        EmitStrategy emit = c.emit.equals("close") ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
        Duration grace = Duration.ofMillis(c.grace);
        switch (c.window) {
            case "tumbling":
            case "hopping": {
                TimeWindows w = TimeWindows.ofSizeAndGrace(Duration.ofMillis(c.size), grace).advanceBy(Duration.ofMillis(c.advance));
                return timed(c, group.windowedBy(w).emitStrategy(emit));
            }
            case "sliding":
                return timed(c, group.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(Duration.ofMillis(c.diff), grace)).emitStrategy(emit));
            case "session": {
                Materialized<String, Long, SessionStore<Bytes, byte[]>> store =
                    Materialized.<String, Long, SessionStore<Bytes, byte[]>>as("store").withKeySerde(Serdes.String()).withValueSerde(Serdes.Long());
                if (c.retention > 0) {
                    store = store.withRetention(Duration.ofMillis(c.retention));
                }
                SessionWindowedKStream<String, Long> windows =
                    group.windowedBy(SessionWindows.ofInactivityGapAndGrace(Duration.ofMillis(c.gap), grace)).emitStrategy(emit);
                if (c.fold.equals("count")) {
                    return windows.count(store);
                }
                return windows.aggregate(() -> 0L, Oracle::add, (k, a, b) -> a + b, store);
            }
            default:
                throw new IllegalArgumentException("does not know the window " + c.window);
        }
    }

    private static KTable<Windowed<String>, Long> timed(Case c, TimeWindowedKStream<String, Long> windows) {
        Materialized<String, Long, WindowStore<Bytes, byte[]>> store =
            Materialized.<String, Long, WindowStore<Bytes, byte[]>>as("store").withKeySerde(Serdes.String()).withValueSerde(Serdes.Long());
        if (c.retention > 0) {
            store = store.withRetention(Duration.ofMillis(c.retention));
        }
        if (c.fold.equals("count")) {
            return windows.count(store);
        }
        return windows.aggregate(() -> 0L, Oracle::add, store);
    }

    private static long add(String key, Long v, long sum) {
        return v == null ? sum : sum + v;
    }

    private static void delete(Path dir) throws IOException {
        try (Stream<Path> files = Files.walk(dir)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        } catch (UncheckedIOException e) {
            // somebody was faster
        }
    }
}
