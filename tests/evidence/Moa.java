import com.yahoo.labs.samoa.instances.Instance;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import moa.classifiers.core.driftdetection.ADWINChangeDetector;
import moa.classifiers.core.driftdetection.ChangeDetector;
import moa.classifiers.core.driftdetection.CusumDM;
import moa.classifiers.core.driftdetection.DDM;
import moa.classifiers.core.driftdetection.EDDM;
import moa.classifiers.core.driftdetection.EWMAChartDM;
import moa.classifiers.core.driftdetection.HDDM_A_Test;
import moa.classifiers.core.driftdetection.HDDM_W_Test;
import moa.classifiers.core.driftdetection.PageHinkleyDM;
import moa.classifiers.trees.HoeffdingTree;
import moa.core.Utils;
import moa.options.OptionHandler;
import moa.streams.ImbalancedStream;
import moa.streams.InstanceStream;
import moa.streams.generators.AgrawalGenerator;
import moa.streams.generators.LEDGenerator;
import moa.streams.generators.RandomRBFGenerator;
import moa.streams.generators.RandomTreeGenerator;
import moa.streams.generators.WaveformGenerator;

/** What MOA says: alarms of its detectors, and predictions of its trees. See tests/evidence/moa.py. */
public class Moa {

    public static void main(String[] args) throws IOException {
        if (args[0].equals("detectors")) {
            detectors();
        } else if (args[0].equals("holdout")) {
            holdout(args[1], Integer.parseInt(args[2]), Integer.parseInt(args[3]),
                Integer.parseInt(args[4]), Integer.parseInt(args[5]));
        } else {
            agrawal(args[1], Integer.parseInt(args[2]), Integer.parseInt(args[3]));
        }
    }

    /** Series of values, one a line; of each, by detector with its defaults, the places of its alarms. */
    private static void detectors() throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] values = line.split(" ");
            for (Map.Entry<String, ChangeDetector> one : all().entrySet()) {
                ChangeDetector detector = one.getValue();
                List<String> places = new ArrayList<>();
                for (int i = 0; i < values.length; i++) {
                    detector.input(Double.parseDouble(values[i]));
                    if (detector.getChange()) {
                        places.add(Integer.toString(i + 1));
                    }
                }
                System.out.println(one.getKey() + " " + String.join(" ", places));
            }
        }
    }

    private static Map<String, ChangeDetector> all() {
        Map<String, ChangeDetector> found = new LinkedHashMap<>();
        PageHinkleyDM plain = new PageHinkleyDM();
        plain.alphaOption.setValue(1.0);
        found.put("page-hinkley", new PageHinkleyDM());
        found.put("page-hinkley alpha=1", plain);
        found.put("adwin", new ADWINChangeDetector());
        found.put("ddm", new DDM());
        found.put("eddm", new EDDM());
        found.put("hddm-a", new HDDM_A_Test());
        found.put("hddm-w", new HDDM_W_Test());
        found.put("cusum", new CusumDM());
        found.put("ecdd", new EWMAChartDM());
        for (ChangeDetector detector : found.values()) {
            ((OptionHandler) detector).prepareForUse();
            detector.resetLearning();
        }
        return found;
    }

    /** The 2019 paper's streams: of each seed a line of labels and one of predictions, 0 and 1. */
    private static void agrawal(String shares, int seeds, int count) {
        for (int seed = 0; seed < seeds; seed++) {
            AgrawalGenerator source = new AgrawalGenerator();
            source.peturbFractionOption.setValue(0.1);
            source.instanceRandomSeedOption.setValue(seed);
            ImbalancedStream stream = new ImbalancedStream();
            stream.streamOption.setCurrentObject(source);
            stream.classRatioOption.setValue(shares);
            stream.instanceRandomSeedOption.setValue(seed);
            stream.prepareForUse();
            HoeffdingTree tree = new HoeffdingTree();
            tree.gracePeriodOption.setValue(20);
            tree.splitConfidenceOption.setValue(1.0E-4);
            tree.setModelContext(stream.getHeader());
            tree.prepareForUse();
            StringBuilder labels = new StringBuilder();
            StringBuilder predictions = new StringBuilder();
            for (int i = 0; i < count; i++) {
                Instance instance = stream.nextInstance().getData();
                predictions.append(Utils.maxIndex(tree.getVotesForInstance(instance)));
                labels.append((int) instance.classValue());
                tree.trainOnInstance(instance);
            }
            System.out.println(labels);
            System.out.println(predictions);
        }
    }

    /**
     * The 2013 paper's figure 3: a line of labels, one of predictions, and one of the tree's errors on instances
     * that it never learns, after so many outcomes each.
     */
    private static void holdout(String name, int seed, int count, int held, int every) {
        InstanceStream stream = stationary(name, seed);
        List<Instance> never = new ArrayList<>();
        for (int i = 0; i < held; i++) {
            never.add((Instance) stream.nextInstance().getData());
        }
        HoeffdingTree tree = new HoeffdingTree();
        tree.setModelContext(stream.getHeader());
        tree.prepareForUse();
        StringBuilder labels = new StringBuilder();
        StringBuilder predictions = new StringBuilder();
        List<String> errors = new ArrayList<>();
        for (int i = 1; i <= count; i++) {
            Instance instance = (Instance) stream.nextInstance().getData();
            predictions.append(Utils.maxIndex(tree.getVotesForInstance(instance)));
            labels.append((int) instance.classValue());
            tree.trainOnInstance(instance);
            if (i % every == 0) {
                int wrong = 0;
                for (Instance one : never) {
                    wrong += Utils.maxIndex(tree.getVotesForInstance(one)) == (int) one.classValue() ? 0 : 1;
                }
                errors.add(Double.toString((double) wrong / held));
            }
        }
        System.out.println(labels);
        System.out.println(predictions);
        System.out.println(String.join(" ", errors));
    }

    /** Streams with MOA's defaults, of LED the seven attributes that say something. */
    private static InstanceStream stationary(String name, int seed) {
        switch (name) {
            case "Waveform":
                WaveformGenerator waves = new WaveformGenerator();
                waves.instanceRandomSeedOption.setValue(seed);
                waves.prepareForUse();
                return waves;
            case "LED":
                LEDGenerator led = new LEDGenerator();
                led.suppressIrrelevantAttributesOption.set();
                led.instanceRandomSeedOption.setValue(seed);
                led.prepareForUse();
                return led;
            case "RBF":
                RandomRBFGenerator rbf = new RandomRBFGenerator();
                rbf.modelRandomSeedOption.setValue(seed);
                rbf.instanceRandomSeedOption.setValue(seed);
                rbf.prepareForUse();
                return rbf;
            case "RT":
                RandomTreeGenerator trees = new RandomTreeGenerator();
                trees.treeRandomSeedOption.setValue(seed);
                trees.instanceRandomSeedOption.setValue(seed);
                trees.prepareForUse();
                return trees;
            default: throw new IllegalArgumentException(name);
        }
    }
}
