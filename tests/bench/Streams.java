import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.management.OperatingSystemMXBean;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.AutoOffsetReset;
import org.apache.kafka.streams.KafkaClientSupplier;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.TimestampExtractor;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.processor.internals.InternalProcessorContext;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.internals.CacheFlushListener;
import org.apache.kafka.streams.state.internals.CachedStateStore;

/**
 * Peer: Kafka Streams as somebody writes it who wants it fast: one processor joins and counts, exactly once.
 *
 * <p>The inputs have one partition for a stream, so nothing is sent around between them. State is objects on the
 * heap; before each commit what has changed goes to a changelog, once, in the transaction of the outputs, and a
 * task that comes up reads it from there. An instance has at most one outcome of a model; labels that change
 * their mind don't count.
 *
 * <p>`--runs N` runs it N times in one JVM on the same topics, each time anew: the first run is cold, and by the
 * last one the JVM has compiled what it runs. Each prints a line of JSON. Time is measured from the first record
 * that a deserializer is given until the last transaction is committed.
 */
public final class Streams {
    private static final String[] TOPICS = {"instances", "predictions", "labels"};
    private static final int INSTANCE = 0, PREDICTION = 1, LABEL = 2;

    /** No class, or no time. */
    private static final int NONE = -1;

    private static final Map<String, String> OPTIONS = new HashMap<>();
    private static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    private static final ObjectMapper JSON = new ObjectMapper();

    private static int emitOutcomes, window;
    private static long emitEvery, horizon, settle;
    private static double fading;

    private Streams() {}

    public static void main(String[] words) throws Exception {
        for (int i = 0; i < words.length; i += 2) OPTIONS.put(words[i].substring(2), words[i + 1]);
        emitOutcomes = Integer.parseInt(OPTIONS.get("emit-outcomes"));
        emitEvery = Long.parseLong(OPTIONS.get("emit-every"));
        window = Integer.parseInt(OPTIONS.get("window"));
        fading = Double.parseDouble(OPTIONS.get("fading"));
        horizon = Long.parseLong(OPTIONS.get("horizon"));
        settle = Long.parseLong(OPTIONS.get("settle"));
        int runs = Integer.parseInt(OPTIONS.get("runs"));
        for (int number = 1; number <= runs; number++) new Run(number, number == runs).run();
        System.exit(0);
    }

    // ---- one run

    /** The application once through the topics, and what it took. */
    private static final class Run {
        final String name, output, group;
        final long records;
        final AtomicLong taken = new AtomicLong(), commits = new AtomicLong();
        final ConcurrentLinkedQueue<State> states = new ConcurrentLinkedQueue<>();
        volatile long began, beganCpu, committed, committedCpu;

        Run(int number, boolean last) {
            name = last ? "streams" : "streams-cold";
            group = OPTIONS.get("group") + "-" + number;
            output = OPTIONS.get("prefix") + OPTIONS.get("group") + "-metrics" + (last ? "" : "-cold");
            records = Long.parseLong(OPTIONS.get("records"));
        }

        void run() throws Exception {
            Path folder = Files.createTempDirectory("streams-peer");
            KafkaStreams streams = new KafkaStreams(topology(), settings(folder), new Clients(this));
            streams.setUncaughtExceptionHandler(error -> {
                error.printStackTrace();
                Runtime.getRuntime().halt(1);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
            streams.start();
            while (taken.get() < records) Thread.sleep(5);
            long seen;
            do {  // what was taken last is committed within an interval; then nothing is left to commit
                seen = commits.get();
                Thread.sleep(4L * Integer.parseInt(OPTIONS.get("commit-every")));
            } while (seen != commits.get());
            report();
            streams.close(Duration.ofSeconds(30));
            try (var files = Files.walk(folder)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            }
        }

        Topology topology() {
            Topology topology = new Topology();
            for (int kind = 0; kind < TOPICS.length; kind++) {
                Deserializer<Object> noKey = (topic, bytes) -> null;
                Reader reader = new Reader(kind, this);
                String topic = OPTIONS.get("prefix") + TOPICS[kind];
                topology.addSource(AutoOffsetReset.earliest(), TOPICS[kind], new Order(kind), noKey, reader, topic);
            }
            topology.addProcessor("evaluation", () -> new Evaluation(this), TOPICS);
            topology.addStateStore(new StateBuilder(this), "evaluation");
            ByteArraySerializer asIs = new ByteArraySerializer();
            topology.addSink("metrics", output, asIs, asIs, "evaluation");
            return topology;
        }

        Properties settings(Path folder) {
            Properties found = new Properties();
            found.put(StreamsConfig.APPLICATION_ID_CONFIG, group);
            found.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, OPTIONS.get("bootstrap-servers"));
            found.put(StreamsConfig.STATE_DIR_CONFIG, folder.toString());
            found.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
            found.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, OPTIONS.get("commit-every"));
            found.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
            int batch = Integer.parseInt(OPTIONS.get("batch"));  // records of a message
            found.put(StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG, Math.max(20, 20_000 / batch));
            found.put("consumer.max.poll.records", Math.max(10, 10_000 / batch));
            found.put("consumer.fetch.min.bytes", 65_536);
            found.put("consumer.fetch.max.wait.ms", 50);
            found.put("producer.compression.type", "lz4");
            found.put("producer.batch.size", 262_144);
            return found;
        }

        void start() {
            synchronized (this) {
                if (began == 0) {
                    beganCpu = PROCESS.getProcessCpuTime();
                    began = System.nanoTime();
                }
            }
        }

        void report() throws IOException {
            long outcomes = 0;
            Map<String, Double> accuracy = new TreeMap<>();
            for (State state : states)
                for (Stream stream : state.streams.values())
                    for (Model model : stream.models) {
                        outcomes += model.outcomes;
                        accuracy.put(stream.name + "/" + model.name(), model.accuracy());
                    }
            Map<String, Object> found = new LinkedHashMap<>();
            found.put("peer", name);
            found.put("case", OPTIONS.get("case"));
            found.put("records", taken.get());
            found.put("seconds", (committed - began) / 1e9);
            found.put("cpu_seconds", (committedCpu - beganCpu) / 1e9);
            found.put("peak_rss_mb", peak());
            found.put("outputs", output);
            found.put("outcomes", outcomes);
            found.put("accuracy", accuracy);
            System.out.println(JSON.writeValueAsString(found));
        }

        /** The process's largest resident set so far, in MB; of the first run, too. */
        static double peak() throws IOException {
            Path status = Path.of("/proc/self/status");
            if (!Files.exists(status)) return 0;
            for (String line : Files.readAllLines(status))
                if (line.startsWith("VmHWM:")) return Long.parseLong(line.replaceAll("\\D", "")) * 1024 / 1e6;
            return 0;
        }
    }

    /** Clients that say when a transaction is committed. */
    private record Clients(Run run) implements KafkaClientSupplier {
        @Override
        public Admin getAdmin(Map<String, Object> config) {
            return Admin.create(config);
        }

        @Override
        public Producer<byte[], byte[]> getProducer(Map<String, Object> config) {
            return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer()) {
                @Override
                public void commitTransaction() {
                    super.commitTransaction();
                    run.committedCpu = PROCESS.getProcessCpuTime();
                    run.committed = System.nanoTime();
                    run.commits.incrementAndGet();
                }
            };
        }

        @Override
        public Consumer<byte[], byte[]> getConsumer(Map<String, Object> config) {
            return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        }

        @Override
        public Consumer<byte[], byte[]> getRestoreConsumer(Map<String, Object> config) {
            return getConsumer(config);
        }

        @Override
        public Consumer<byte[], byte[]> getGlobalConsumer(Map<String, Object> config) {
            return getConsumer(config);
        }
    }

    // ---- records

    /**
     * Time, and the kind of record behind it: Kafka Streams takes what has the smallest first, so records of one
     * time come in the order of the topics.
     */
    private record Order(int kind) implements TimestampExtractor {
        static final int KINDS = TOPICS.length;

        @Override
        public long extract(ConsumerRecord<Object, Object> record, long partitionTime) {
            return KINDS * record.timestamp() + kind;
        }
    }

    /** A record of one of the inputs; without a stream it can't be used. Those of one message are linked. */
    private static final class Input {
        final int kind;
        String stream, id, model, said;
        long ts;
        Input next;

        Input(int kind) {
            this.kind = kind;
        }
    }

    /**
     * Flat JSON of ASCII without escapes, or an array of such, in one pass over its bytes; other JSON by Jackson;
     * Arrow streams by Arrow.
     */
    private static final class Reader implements Deserializer<Input> {
        /** The first byte of an Arrow stream. */
        private static final byte ARROW = -1;

        private static final RootAllocator ALLOCATOR = new RootAllocator();

        private final int kind;
        private final Run run;

        Reader(int kind, Run run) {
            this.kind = kind;
            this.run = run;
        }

        @Override
        public Input deserialize(String topic, byte[] json) {
            if (run.began == 0) run.start();
            int at = blanks(json, 0);
            if (at < json.length && json[at] == '[') return array(json, at + 1);
            if (at < json.length && json[at] == ARROW) return arrow(json);
            Input found = new Input(kind);
            return plain(json, at, found) >= 0 ? found : any(json);
        }

        /** Where the object ends that begins there; below 0: Jackson should read it. */
        private static int plain(byte[] json, int at, Input found) {
            if (at >= json.length || json[at++] != '{') return -1;
            while (true) {
                int name = blanks(json, at) + 1;
                if (name > json.length || json[name - 1] != '"') return -1;
                int nameEnd = stringEnd(json, name);
                if (nameEnd < 0) return -1;
                at = blanks(json, nameEnd + 1);
                if (at == json.length || json[at] != ':') return -1;
                int value = blanks(json, at + 1);
                if (value == json.length) return -1;
                boolean text = json[value] == '"';
                int end = text ? stringEnd(json, ++value) : numberEnd(json, value);
                if (end < 0 || !take(json, name, nameEnd, value, end, text, found)) return -1;
                at = blanks(json, text ? end + 1 : end);
                if (at == json.length) return -1;
                if (json[at] == '}') return found.stream != null && found.id != null ? at + 1 : -1;
                if (json[at++] != ',') return -1;
            }
        }

        private Input array(byte[] json, int at) {
            Input first = new Input(kind), last = first;
            while (true) {
                int end = plain(json, blanks(json, at), last);
                if (end < 0) return any(json);
                at = blanks(json, end);
                if (at < json.length && json[at] == ']') return first;
                if (at == json.length || json[at++] != ',') return any(json);
                last = last.next = new Input(kind);
            }
        }

        private Input arrow(byte[] bytes) {
            Input head = new Input(kind), last = head;
            try (ArrowStreamReader reader = new ArrowStreamReader(new ByteArrayInputStream(bytes), ALLOCATOR)) {
                VectorSchemaRoot root = reader.getVectorSchemaRoot();
                while (reader.loadNextBatch()) {
                    VarCharVector streams = (VarCharVector) root.getVector("stream");
                    VarCharVector ids = (VarCharVector) root.getVector("instance_id");
                    VarCharVector models = (VarCharVector) root.getVector("model");
                    VarCharVector said = (VarCharVector) root.getVector(kind == LABEL ? "y_true" : "y_pred");
                    BigIntVector times = (BigIntVector) root.getVector("ts");
                    for (int row = 0; row < root.getRowCount(); row++) {
                        last = last.next = new Input(kind);
                        last.stream = text(streams, row);
                        last.id = text(ids, row);
                        if (models != null) last.model = text(models, row);
                        if (said != null) last.said = text(said, row);
                        last.ts = times.get(row);
                    }
                }
            } catch (IOException error) {
                return head;
            }
            return head.next == null ? head : head.next;
        }

        private static String text(VarCharVector column, int row) {
            return new String(column.get(row), StandardCharsets.UTF_8);
        }

        /** Fields are told by their lengths and one letter. */
        private static boolean take(byte[] json, int name, int nameEnd, int from, int to, boolean text, Input found) {
            switch (nameEnd - name) {
                case 2 -> {
                    if (json[name] != 't') return true;
                    if (text) return false;
                    found.ts = number(json, from, to);
                    return true;
                }
                case 5 -> found.model = text(json, from, to);
                case 6 -> {
                    if (json[name] == 's') found.stream = text(json, from, to);
                    else if (json[name] == 'y') found.said = text(json, from, to);
                }
                case 11 -> found.id = text(json, from, to);
                default -> { }
            }
            return text;
        }

        private static int blanks(byte[] json, int at) {
            while (at < json.length && json[at] == ' ') at++;
            return at;
        }

        private static int stringEnd(byte[] json, int at) {
            for (; at < json.length; at++) {
                byte one = json[at];
                if (one == '"') return at;
                if (one == '\\' || one < 0) return -1;
            }
            return -1;
        }

        private static int numberEnd(byte[] json, int at) {
            int end = at;
            while (end < json.length && json[end] >= '0' && json[end] <= '9') end++;
            return end > at ? end : -1;
        }

        private static long number(byte[] json, int at, int end) {
            long value = 0;
            for (; at < end; at++) value = 10 * value + json[at] - '0';
            return value;
        }

        private static String text(byte[] json, int from, int to) {
            return new String(json, from, to - from, StandardCharsets.ISO_8859_1);
        }

        private Input any(byte[] json) {
            Input head = new Input(kind), last = head;
            try {
                JsonNode node = JSON.readTree(json);
                if (!node.isArray()) return of(node);
                for (JsonNode element : node) last = last.next = of(element);
            } catch (IOException error) {
                return head;
            }
            return head.next == null ? head : head.next;
        }

        private Input of(JsonNode node) {
            Input found = new Input(kind);
            found.id = node.path("instance_id").asText();
            found.model = node.path("model").asText();
            found.said = node.path(kind == LABEL ? "y_true" : "y_pred").asText();
            found.ts = node.path("ts").asLong();
            found.stream = node.path("stream").asText(null);
            return found;
        }
    }

    // ---- state

    /** Names of classes or models in the order in which they came; few, so they are looked through. */
    private static final class Names {
        final ArrayList<String> all = new ArrayList<>();

        int code(String name) {
            for (int code = 0; code < all.size(); code++) if (all.get(code).equals(name)) return code;
            all.add(name);
            return all.size() - 1;
        }

        byte[] bytes() {
            return String.join("\0", all).getBytes(StandardCharsets.UTF_8);
        }

        void restore(byte[] text) {
            all.clear();
            if (text.length > 0) all.addAll(Arrays.asList(new String(text, StandardCharsets.UTF_8).split("\0")));
        }
    }

    /** An instance: predictions that wait for its label, or the label that it got. */
    private static final class Instance {
        final Stream stream;
        final String id;
        long ts;
        int label = NONE, persistent = NONE, majority = NONE;  // the baselines just before the label
        int[] predictions = {};  // of each: model, class, the baselines' answers then
        boolean changed, gone;

        Instance(Stream stream, String id, long ts) {
            this.stream = stream;
            this.id = id;
            this.ts = ts;
        }

        /** Where in `predictions` a model's is. */
        int of(int model) {
            for (int at = 0; at < predictions.length; at += 4) if (predictions[at] == model) return at;
            return NONE;
        }

        void add(int model, int said, int persistent, int majority) {
            int at = of(model);
            if (at == NONE) {
                at = predictions.length;
                predictions = Arrays.copyOf(predictions, at + 4);
            }
            predictions[at] = model;
            predictions[at + 1] = said;
            predictions[at + 2] = persistent;
            predictions[at + 3] = majority;
        }

        byte[] bytes() {
            if (gone) return null;
            ByteBuffer to = ByteBuffer.allocate(14 + 2 * predictions.length);
            to.putLong(ts).putShort((short) label).putShort((short) persistent).putShort((short) majority);
            for (int one : predictions) to.putShort((short) one);
            return to.array();
        }

        void restore(ByteBuffer from) {
            ts = from.getLong();
            label = from.getShort();
            persistent = from.getShort();
            majority = from.getShort();
            predictions = new int[from.remaining() / 2];
            for (int i = 0; i < predictions.length; i++) predictions[i] = from.getShort();
        }
    }

    /** A stream: what waits, its labels and its models. */
    private static final class Stream {
        final String name;
        final Names classes = new Names(), modelNames = new Names();
        final ArrayList<Model> models = new ArrayList<>();
        final HashMap<String, Instance> instances = new HashMap<>();
        /** In order of time: those that wait, those that had outcomes, those whose label waits. */
        final ArrayDeque<Instance> waiting = new ArrayDeque<>(), settled = new ArrayDeque<>(), unmatched = new ArrayDeque<>();
        final ArrayList<Integer> order = new ArrayList<>();  // of classes, by their first labels
        long[] labels = new long[2];
        int persistent = NONE, majority = NONE;
        boolean changed;

        Stream(String name) {
            this.name = name;
        }

        Model model(int code) {
            while (code >= models.size()) models.add(new Model(this, models.size()));
            return models.get(code);
        }

        void count(int label) {
            if (label >= labels.length) labels = Arrays.copyOf(labels, 2 * label);
            if (labels[label]++ == 0) order.add(label);
            persistent = label;
            long most = majority == NONE ? 0 : labels[majority];
            if (labels[label] > most || labels[label] == most && order.indexOf(label) < order.indexOf(majority))
                majority = label;
        }

        byte[] bytes() {
            byte[] classNames = classes.bytes(), names = modelNames.bytes();
            ByteBuffer to = ByteBuffer.allocate(16 + 10 * order.size() + classNames.length + names.length);
            to.putShort((short) persistent).putShort((short) majority).putInt(order.size());
            for (int label : order) to.putShort((short) label).putLong(labels[label]);
            to.putInt(classNames.length).put(classNames).putInt(names.length).put(names);
            return to.array();
        }

        void restore(ByteBuffer from) {
            persistent = from.getShort();
            majority = from.getShort();
            order.clear();
            for (int left = from.getInt(); left > 0; left--) {
                int label = from.getShort();
                order.add(label);
                if (label >= labels.length) labels = Arrays.copyOf(labels, 2 * label);
                labels[label] = from.getLong();
            }
            for (Names names : new Names[] {classes, modelNames}) {
                byte[] text = new byte[from.getInt()];
                from.get(text);
                names.restore(text);
            }
        }
    }

    /** A model: its outcomes by kind (label, prediction, the baselines right or not), all, in a window and faded. */
    private static final class Model {
        /** Outcomes of the window that a change's entry in the changelog holds. */
        private static final int BLOCK = 100;
        private static final double LARGE = 1e200;

        final Stream stream;
        final int code;
        long outcomes, labelTs;
        double growth = 1;  // a new outcome's weight grows, in place of all others' becoming less
        boolean known, published = true, changed;
        int capacity = 2;  // classes that the arrays below have room for
        long[] all = new long[16];
        int[] recent = new int[16];
        double[] faded = new double[16];
        final int[] ring = new int[window];
        final boolean[] changedBlocks = new boolean[(window + BLOCK - 1) / BLOCK];

        Model(Stream stream, int code) {
            this.stream = stream;
            this.code = code;
        }

        String name() {
            return stream.modelNames.all.get(code);
        }

        private int cell(int kind) {
            return (((kind >>> 17) * capacity + (kind >>> 2 & 0x7fff)) << 2) + (kind & 3);
        }

        private void room(int classes) {
            if (classes <= capacity) return;
            int before = capacity;
            long[] oldAll = all;
            int[] oldRecent = recent;
            double[] oldFaded = faded;
            capacity = Math.max(classes, 2 * before);
            int size = 4 * capacity * capacity;
            all = new long[size];
            recent = new int[size];
            faded = new double[size];
            for (int label = 0; label < before; label++) {
                int from = 4 * label * before, to = 4 * label * capacity;
                System.arraycopy(oldAll, from, all, to, 4 * before);
                System.arraycopy(oldRecent, from, recent, to, 4 * before);
                System.arraycopy(oldFaded, from, faded, to, 4 * before);
            }
        }

        /** An outcome; true if it makes messages due. */
        boolean add(int label, int said, int persistent, int majority) {
            room(Math.max(label, said) + 1);
            int kind = label << 17 | said << 2 | (persistent == label ? 2 : 0) | (majority == label ? 1 : 0);
            int cell = cell(kind), place = (int) (outcomes % window);
            if (outcomes >= window) recent[cell(ring[place])]--;
            ring[place] = kind;
            changedBlocks[place / BLOCK] = true;
            outcomes++;
            if (persistent != NONE) known = true;
            all[cell]++;
            recent[cell]++;
            growth /= fading;
            faded[cell] += growth;
            if (growth > LARGE) {
                for (int i = 0; i < faded.length; i++) faded[i] /= growth;
                growth = 1;
            }
            return outcomes % emitOutcomes == 0;
        }

        double accuracy() {
            long right = 0;
            for (int label = 0; label < capacity; label++)
                for (int flags = 0; flags < 4; flags++) right += all[(label * capacity + label << 2) + flags];
            return (double) right / outcomes;
        }

        byte[] bytes() {
            int classes = stream.classes.all.size(), held = Math.min(classes, capacity);
            ByteBuffer to = ByteBuffer.allocate(28 + 64 * held * held);
            to.putLong(outcomes).putLong(labelTs).putDouble(growth).put((byte) (known ? 1 : 0)).put((byte) (published ? 1 : 0));
            to.putShort((short) held);
            for (int label = 0; label < held; label++)
                for (int i = 4 * label * capacity; i < 4 * (label * capacity + held); i++) to.putLong(all[i]).putDouble(faded[i]);
            return to.array();
        }

        byte[] block(int number) {
            int from = number * BLOCK, end = (int) Math.min(Math.min(from + BLOCK, window), Math.max(outcomes, from));
            ByteBuffer to = ByteBuffer.allocate(4 * (end - from));
            for (int i = from; i < end; i++) to.putInt(ring[i]);
            return to.array();
        }

        void restore(ByteBuffer from) {
            outcomes = from.getLong();
            labelTs = from.getLong();
            growth = from.getDouble();
            known = from.get() == 1;
            published = from.get() == 1;
            int held = from.getShort();
            room(held);
            for (int label = 0; label < held; label++)
                for (int i = 4 * label * capacity; i < 4 * (label * capacity + held); i++) {
                    all[i] = from.getLong();
                    faded[i] = from.getDouble();
                }
        }

        void restoreBlock(int number, ByteBuffer from) {
            for (int i = number * BLOCK; from.hasRemaining(); i++) ring[i] = from.getInt();
        }

        /** The window's counts, once its outcomes are there. */
        void count() {
            Arrays.fill(recent, 0);
            for (int i = 0; i < Math.min(outcomes, window); i++) recent[cell(ring[i])]++;
        }
    }

    /**
     * All that a task knows. Kafka Streams calls `flushCache` before each commit, as it does with its own caches:
     * then what has changed is written to the changelog. Its keys are a letter and names.
     */
    private static final class State implements StateStore, CachedStateStore<Object, Object> {
        private static final char STREAM = 's', MODEL = 'm', BLOCK = 'b', INSTANCE = 'i';

        final HashMap<String, Stream> streams = new HashMap<>();
        final ArrayList<Stream> changedStreams = new ArrayList<>();
        final ArrayList<Model> changedModels = new ArrayList<>();
        final ArrayList<Instance> changedInstances = new ArrayList<>();
        private InternalProcessorContext<?, ?> context;
        private boolean open;

        Stream stream(String name) {
            Stream found = streams.get(name);
            if (found == null) streams.put(name, found = new Stream(name));
            return found;
        }

        void changed(Stream one) {
            if (!one.changed) {
                one.changed = true;
                changedStreams.add(one);
            }
        }

        void changed(Model one) {
            if (!one.changed) {
                one.changed = true;
                changedModels.add(one);
            }
        }

        void changed(Instance one) {
            if (!one.changed) {
                one.changed = true;
                changedInstances.add(one);
            }
        }

        @Override
        public void flushCache() {
            long now = System.currentTimeMillis();
            for (Stream one : changedStreams) {
                one.changed = false;
                log(now, one.bytes(), STREAM, one.name);
            }
            for (Model one : changedModels) {
                one.changed = false;
                log(now, one.bytes(), MODEL, one.stream.name, Integer.toString(one.code));
                for (int number = 0; number < one.changedBlocks.length; number++)
                    if (one.changedBlocks[number]) {
                        one.changedBlocks[number] = false;
                        log(now, one.block(number), BLOCK, one.stream.name, Integer.toString(one.code), Integer.toString(number));
                    }
            }
            for (Instance one : changedInstances) {
                one.changed = false;
                log(now, one.bytes(), INSTANCE, one.stream.name, one.id);
            }
            changedStreams.clear();
            changedModels.clear();
            changedInstances.clear();
        }

        private void log(long now, byte[] value, char kind, String... names) {
            String key = kind + String.join("\0", names);
            context.logChange(name(), Bytes.wrap(key.getBytes(StandardCharsets.UTF_8)), value, now, Position.emptyPosition());
        }

        @Override
        public void init(StateStoreContext store, StateStore root) {
            context = (InternalProcessorContext<?, ?>) store;
            open = true;
            store.register(root, this::restore);
        }

        private void restore(byte[] key, byte[] value) {
            String[] names = new String(key, 1, key.length - 1, StandardCharsets.UTF_8).split("\0");
            Stream stream = stream(names[0]);
            if (key[0] == INSTANCE && value == null) {
                stream.instances.remove(names[1]);
                return;
            }
            ByteBuffer from = ByteBuffer.wrap(value);
            switch (key[0]) {
                case STREAM -> stream.restore(from);
                case MODEL -> stream.model(Integer.parseInt(names[1])).restore(from);
                case BLOCK -> stream.model(Integer.parseInt(names[1])).restoreBlock(Integer.parseInt(names[2]), from);
                default -> stream.instances.computeIfAbsent(names[1], id -> new Instance(stream, id, 0)).restore(from);
            }
        }

        /** What follows from what was restored; the models that have something to say. */
        Collection<Model> restored() {
            ArrayList<Model> unpublished = new ArrayList<>();
            for (Stream stream : streams.values()) {
                for (Model model : stream.models) {
                    model.count();
                    if (!model.published) unpublished.add(model);
                }
                stream.instances.values().stream().sorted(Comparator.comparingLong(one -> one.ts)).forEach(one -> {
                    boolean matched = one.predictions.length > 0;
                    (one.label == NONE ? stream.waiting : matched ? stream.settled : stream.unmatched).add(one);
                });
            }
            return unpublished;
        }

        @Override
        public String name() {
            return "evaluation-state";
        }

        @Override
        public void clearCache() {}

        @Override
        public boolean setFlushListener(CacheFlushListener<Object, Object> listener, boolean sendOldValues) {
            return false;
        }

        @Override
        public void flush() {}

        @Override
        public void close() {
            open = false;
        }

        @Override
        public boolean persistent() {
            return false;
        }

        @Override
        public boolean isOpen() {
            return open;
        }
    }

    private record StateBuilder(Run run) implements StoreBuilder<State> {
        @Override
        public State build() {
            State state = new State();
            run.states.add(state);
            return state;
        }

        @Override
        public StoreBuilder<State> withCachingEnabled() {
            return this;
        }

        @Override
        public StoreBuilder<State> withCachingDisabled() {
            return this;
        }

        @Override
        public StoreBuilder<State> withLoggingEnabled(Map<String, String> config) {
            return this;
        }

        @Override
        public StoreBuilder<State> withLoggingDisabled() {
            throw new UnsupportedOperationException("the state is its changelog");
        }

        @Override
        public Map<String, String> logConfig() {
            return Map.of();
        }

        @Override
        public boolean loggingEnabled() {
            return true;
        }

        @Override
        public String name() {
            return "evaluation-state";
        }
    }

    // ---- evaluation

    /** Joins, counts, and says what is due. Kafka Streams gives a task its records in order of time. */
    private static final class Evaluation implements Processor<Object, Input, byte[], byte[]> {
        private final Run run;
        private ProcessorContext<byte[], byte[]> context;
        private State state;
        private ArrayList<Model> unpublished;
        private long due = Long.MIN_VALUE, now;
        private Writer writer;

        Evaluation(Run run) {
            this.run = run;
        }

        @Override
        public void init(ProcessorContext<byte[], byte[]> given) {
            context = given;
            state = given.getStateStore("evaluation-state");
            unpublished = new ArrayList<>(state.restored());
            writer = new Writer(given.taskId().partition());
            long reached = given.currentStreamTimeMs();  // before a restart, as committed with the offsets
            if (reached >= 0) due = nextMultiple(reached / Order.KINDS);
        }

        private static long nextMultiple(long time) {
            return (Math.floorDiv(time, emitEvery) + 1) * emitEvery;
        }

        @Override
        public void process(Record<Object, Input> record) {
            now = record.timestamp() / Order.KINDS;
            if (now >= due) tick();
            long count = 0;
            for (Input input = record.value(); input != null; input = input.next, count++) {
                if (input.stream == null) continue;
                if (input.kind == PREDICTION) prediction(state.stream(input.stream), input);
                else if (input.kind == LABEL) label(state.stream(input.stream), input);
            }
            run.taken.addAndGet(count);
        }

        private void tick() {
            due = nextMultiple(now);
            ArrayList<Model> before = unpublished;
            unpublished = new ArrayList<>();
            for (Model model : before) if (!model.published) publish(model);
        }

        private void prediction(Stream stream, Input input) {
            int model = code(stream, stream.modelNames, input.model), said = code(stream, stream.classes, input.said);
            Instance instance = stream.instances.get(input.id);
            if (instance == null) {
                instance = new Instance(stream, input.id, input.ts);
                stream.instances.put(input.id, instance);
                stream.waiting.add(instance);
            } else if (instance.label != NONE) {
                if (input.ts > instance.ts || instance.of(model) != NONE) return;
                instance.add(model, said, instance.persistent, instance.majority);
                outcome(instance, instance.predictions.length - 4);
                state.changed(instance);
                return;
            }
            instance.add(model, said, stream.persistent, stream.majority);
            state.changed(instance);
        }

        private void label(Stream stream, Input input) {
            expire(stream, input.ts);
            int label = code(stream, stream.classes, input.said);
            Instance instance = stream.instances.get(input.id);
            if (instance == null) {
                instance = new Instance(stream, input.id, input.ts);
                stream.instances.put(input.id, instance);
            } else if (instance.label != NONE) {
                return;
            }
            instance.ts = input.ts;
            instance.label = label;
            instance.persistent = stream.persistent;
            instance.majority = stream.majority;
            for (int at = 0; at < instance.predictions.length; at += 4) outcome(instance, at);
            (instance.predictions.length > 0 ? stream.settled : stream.unmatched).add(instance);
            stream.count(label);
            state.changed(instance);
            state.changed(stream);
        }

        private int code(Stream stream, Names names, String name) {
            int known = names.all.size(), code = names.code(name);
            if (code == known) state.changed(stream);
            return code;
        }

        private void outcome(Instance instance, int at) {
            int[] given = instance.predictions;
            Model model = instance.stream.model(given[at]);
            boolean isDue = model.add(instance.label, given[at + 1], given[at + 2], given[at + 3]);
            model.labelTs = instance.ts;
            state.changed(model);
            if (isDue) {
                publish(model);
            } else if (model.published) {
                model.published = false;
                unpublished.add(model);
            }
        }

        private void publish(Model model) {
            byte[] key = model.stream.name.getBytes(StandardCharsets.UTF_8);
            for (int estimator = 0; estimator < 3; estimator++)
                context.forward(new Record<>(key, writer.message(model, estimator), now));
            model.published = true;
            state.changed(model);
        }

        /** Forget what has waited, or was known, long enough. */
        private void expire(Stream stream, long time) {
            ArrayDeque<Instance> waiting = stream.waiting;
            // A label takes an instance out of what waits; its place in the queue goes when it is its turn.
            while (!waiting.isEmpty() && (waiting.peek().label != NONE || waiting.peek().ts < time - horizon)) {
                Instance one = waiting.poll();
                if (one.label == NONE) forget(one);
            }
            forget(stream.settled, time - settle);
            forget(stream.unmatched, time - horizon);
        }

        private void forget(ArrayDeque<Instance> queue, long before) {
            while (!queue.isEmpty() && queue.peek().ts < before) forget(queue.poll());
        }

        private void forget(Instance one) {
            one.stream.instances.remove(one.id);
            one.gone = true;
            state.changed(one);
        }
    }

    // ---- messages

    /** Messages as JSON: what `figures.py` computes, in the order of its fields. */
    private static final class Writer {
        private static final String NEVER = ",\"log_loss\":\"no_probabilities\",\"brier\":\"no_probabilities\","
            + "\"ece\":\"no_probabilities\",\"mae\":\"not_regression\",\"mse\":\"not_regression\","
            + "\"rmse\":\"not_regression\",\"r2\":\"not_regression\"";

        private final int partition;
        private final Map<String, String> quoted = new ConcurrentHashMap<>();
        private final StringBuilder values = new StringBuilder(1_024), reasons = new StringBuilder(512);
        private double[] labelled = {}, predicted = {}, right = {};

        Writer(int partition) {
            this.partition = partition;
        }

        private String quote(String name) {
            return quoted.computeIfAbsent(name, one -> JSON.getNodeFactory().textNode(one).toString());
        }

        byte[] message(Model model, int estimator) {
            String name = estimator == 0 ? "all" : estimator == 1 ? "window:" + window : "fading:" + fading;
            double n = measure(model, estimator);
            StringBuilder to = new StringBuilder(1_200);
            to.append("{\"stream\":").append(quote(model.stream.name)).append(",\"partition\":").append(partition);
            to.append(",\"model\":").append(quote(model.name())).append(",\"segment\":null,\"stage\":\"final\",\"estimator\":\"");
            to.append(name).append("\",\"n\":");
            if (estimator == 2) to.append(n);
            else to.append((long) n);
            to.append(",\"outcomes\":").append(model.outcomes).append(",\"ts\":").append(model.labelTs);
            to.append(",\"measures\":{").append(values, 1, values.length());
            to.append("},\"undefined\":{").append(reasons, 1, reasons.length()).append("}}");
            return to.toString().getBytes(StandardCharsets.UTF_8);
        }

        private void value(String name, double value) {
            values.append(",\"").append(name).append("\":").append(value);
        }

        private void reason(String name, String reason) {
            reasons.append(",\"").append(name).append("\":\"").append(reason).append('"');
        }

        private void share(String name, double above, double below, String reason) {
            if (below > 0) value(name, above / below);
            else reason(name, reason);
        }

        private static double weight(Model model, int estimator, int cell) {
            return estimator == 0 ? model.all[cell] : estimator == 1 ? model.recent[cell] : model.faded[cell] / model.growth;
        }

        /** Fills `values` and `reasons`; the weight of all outcomes. */
        private double measure(Model model, int estimator) {
            int classes = model.capacity;
            labelled = new double[classes];
            predicted = new double[classes];
            right = new double[classes];
            double n = 0, hits = 0, wrong = 0;
            double[] persistent = new double[2], majority = new double[2];  // wrong, right
            for (int label = 0, cell = 0; label < classes; label++)
                for (int said = 0; said < classes; said++)
                    for (int flags = 0; flags < 4; flags++, cell++) {
                        double weight = weight(model, estimator, cell);
                        if (weight == 0) continue;
                        n += weight;
                        labelled[label] += weight;
                        predicted[said] += weight;
                        if (label == said) right[label] += weight;
                        else wrong += weight;
                        persistent[flags >> 1] += weight;
                        majority[flags & 1] += weight;
                    }
            for (double one : right) hits += one;
            values.setLength(0);
            reasons.setLength(0);
            reasons.append(NEVER);
            value("error", wrong / n);
            value("accuracy", hits / n);
            double kappa = againstChance(n, hits, wrong);
            againstBaselines(model.known, wrong, persistent, majority, kappa);
            byClass(n, model.stream.classes.all);
            return n;
        }

        /** What is apart is summed up by itself: as a difference of faded sums it could be less than nothing. */
        private static double apart(double[] one, double[] other) {
            double found = 0;
            for (int i = 0; i < one.length; i++)
                for (int j = 0; j < other.length; j++) if (i != j) found += one[i] * other[j];
            return found;
        }

        private double againstChance(double n, double hits, double wrong) {
            double chance = 0, beyond = apart(labelled, predicted), kappa = Double.NaN;
            for (int i = 0; i < labelled.length; i++) chance += labelled[i] * predicted[i];
            if (beyond > 0) {
                kappa = 1 - wrong * n / beyond;
                value("kappa", kappa);
                value("kappa_se", Math.sqrt(hits * wrong * n) / beyond);
                if (chance > 0) value("kappa_z", kappa * Math.sqrt(n * beyond / chance));
                else reason("kappa_z", "zero_denominator");
            } else {
                for (String name : new String[] {"kappa", "kappa_se", "kappa_z"}) reason(name, "p_ran_one");
            }
            double pairs = apart(labelled, labelled), otherPairs = apart(predicted, predicted);
            if (pairs > 0 && otherPairs > 0) value("mcc", (hits * n - chance) / Math.sqrt(pairs * otherPairs));
            else reason("mcc", "zero_denominator");
            return kappa;
        }

        private void againstBaselines(boolean known, double wrong, double[] persistent, double[] majority, double kappa) {
            if (!known) {
                for (String name : new String[] {"p_per", "kappa_per", "p_maj", "kappa_maj", "kappa_plus"})
                    reason(name, "no_label_known");
                return;
            }
            value("p_per", persistent[1] / (persistent[0] + persistent[1]));
            value("p_maj", majority[1] / (majority[0] + majority[1]));
            share("kappa_per", persistent[0] - wrong, persistent[0], "p_per_one");
            share("kappa_maj", majority[0] - wrong, majority[0], "p_maj_one");
            if (Double.isNaN(kappa)) reason("kappa_plus", "p_ran_one");
            else if (persistent[0] == 0) reason("kappa_plus", "p_per_one");
            else value("kappa_plus", Math.sqrt(Math.max(0, kappa) * Math.max(0, (persistent[0] - wrong) / persistent[0])));
        }

        private void byClass(double n, ArrayList<String> classes) {
            double recalls = 0, product = 1, precisions = 0, scores = 0, weighted = 0;
            int present = 0, seen = 0;
            for (int i = 0; i < labelled.length; i++) {
                if (labelled[i] > 0) {
                    recalls += right[i] / labelled[i];
                    product *= right[i] / labelled[i];
                    seen++;
                }
                if (predicted[i] > 0) precisions += right[i] / predicted[i];
                if (labelled[i] + predicted[i] > 0) {
                    double score = 2 * right[i] / (labelled[i] + predicted[i]);
                    scores += score;
                    weighted += score * labelled[i];
                    present++;
                }
            }
            value("balanced_accuracy", recalls / seen);
            value("g_mean", Math.pow(product, 1.0 / seen));
            value("macro_precision", precisions / present);
            value("macro_recall", recalls / present);
            value("macro_f1", scores / present);
            value("weighted_f1", weighted / n);
            String positive = positive(classes);
            if (positive == null) {
                for (String name : new String[] {"precision", "recall", "specificity", "f1"}) reason(name, "no_positive_class");
                return;
            }
            int at = classes.indexOf(positive);
            boolean room = at >= 0 && at < labelled.length;
            double hit = room ? right[at] : 0, of = room ? labelled[at] : 0, said = room ? predicted[at] : 0;
            share("precision", hit, said, "no_predicted_positives");
            share("recall", hit, of, "no_positives");
            double negative = 0;
            for (int i = 0; i < labelled.length; i++) if (i != at) negative += labelled[i];
            share("specificity", Math.max(0, negative - said + hit), negative, "no_negatives");
            if (of > 0 && said > 0) value("f1", 2 * hit / (of + said));
            else reason("f1", of > 0 ? "no_predicted_positives" : "no_positives");
        }

        /** The positive class, by the labels in memory. */
        private String positive(ArrayList<String> classes) {
            boolean digits = true, booleans = true;
            for (int i = 0; i < labelled.length; i++) {
                if (labelled[i] == 0) continue;
                String name = classes.get(i);
                digits &= name.equals("0") || name.equals("1");
                booleans &= name.equals("false") || name.equals("true");
            }
            return digits ? "1" : booleans ? "true" : null;
        }
    }
}
