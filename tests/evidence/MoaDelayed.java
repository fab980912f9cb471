import com.yahoo.labs.samoa.instances.Attribute;
import com.yahoo.labs.samoa.instances.DenseInstance;
import com.yahoo.labs.samoa.instances.Instance;
import com.yahoo.labs.samoa.instances.Instances;
import com.yahoo.labs.samoa.instances.InstancesHeader;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Collectors;
import moa.classifiers.AbstractClassifier;
import moa.classifiers.Classifier;
import moa.classifiers.bayes.NaiveBayes;
import moa.classifiers.functions.MajorityClass;
import moa.classifiers.functions.NoChange;
import moa.classifiers.lazy.kNN;
import moa.classifiers.meta.AdaptiveRandomForest;
import moa.classifiers.trees.HoeffdingAdaptiveTree;
import moa.classifiers.trees.HoeffdingTree;
import moa.core.Utils;
import moa.options.AbstractOptionHandler;
import moa.streams.InstanceStream;
import moa.streams.generators.AgrawalGenerator;
import moa.streams.generators.HyperplaneGenerator;
import moa.streams.generators.LEDGeneratorDrift;

/** The 2020 paper's algorithm 1: MOA's classifiers, whose labels come late. See tests/evidence/delayed_labels.py. */
public class MoaDelayed {

    /**
     * Stream, seed, instances, latency of the label in instances, parts of it, models, and labels.
     *
     * <p>Of each instance a line: its label, and of each model what it predicted at its arrival and at the end
     * of each part, the last one just before its label; but between these two only where the number of labels
     * that the model has learned is a multiple of the last argument; the prediction before stands otherwise.
     */
    public static void main(String[] args) {
        int seed = Integer.parseInt(args[1]);
        int count = Integer.parseInt(args[2]);
        int delay = Integer.parseInt(args[3]);
        int bins = Integer.parseInt(args[4]);
        int every = Integer.parseInt(args[6]);
        List<Instance> stream = instances(args[0], seed, count);
        List<Classifier> models = new ArrayList<>();
        for (String name : args[5].split(",")) {
            models.add(model(name, stream.get(0)));
        }
        char[][][] said = new char[models.size()][stream.size()][bins + 1];
        for (int now = 0; now < stream.size() + delay; now++) {
            for (int m = 0; m < models.size(); m++) {
                for (int bin = 0; bin <= bins; bin++) {
                    int at = now - delay * bin / bins;
                    if (at < 0 || at >= stream.size()) {
                        continue;
                    }
                    if (bin > 0 && bin < bins && Math.max(0, now - delay) % every > 0) {
                        said[m][at][bin] = said[m][at][bin - 1];
                    } else {
                        int guess = Utils.maxIndex(models.get(m).getVotesForInstance(stream.get(at)));
                        said[m][at][bin] = (char) ('0' + guess);
                    }
                }
                if (now >= delay) {
                    models.get(m).trainOnInstance(stream.get(now - delay));
                }
            }
        }
        for (int i = 0; i < stream.size(); i++) {
            StringBuilder line = new StringBuilder().append((int) stream.get(i).classValue());
            for (char[][] one : said) {
                line.append(' ').append(one[i]);
            }
            System.out.println(line);
        }
    }

    private static Classifier model(String name, Instance example) {
        AbstractClassifier found;
        switch (name) {
            case "NB": found = new NaiveBayes(); break;
            case "NC": found = new NoChange(); break;
            case "MC": found = new MajorityClass(); break;
            case "kNN": found = new kNN(); break;
            case "HT": found = new HoeffdingTree(); break;
            case "HAT": found = new HoeffdingAdaptiveTree(); break;
            case "ARF":
                AdaptiveRandomForest forest = new AdaptiveRandomForest();
                forest.ensembleSizeOption.setValue(10);
                found = forest;
                break;
            default: throw new IllegalArgumentException(name);
        }
        found.setModelContext(new InstancesHeader(example.dataset()));
        found.prepareForUse();
        return found;
    }

    private static List<Instance> instances(String name, int seed, int count) {
        switch (name) {
            case "led": return led(seed, count);
            case "agrawal": return agrawal(seed, count);
            case "hyperplane": return hyperplane(seed, count);
            case "given": return given();
            default: throw new IllegalArgumentException(name);
        }
    }

    /** Three abrupt drifts, at 3/16, 6/16 and 12/16: 3, 5 and 7 attributes are swapped. */
    private static List<Instance> led(int seed, int count) {
        List<InstanceStream> concepts = new ArrayList<>();
        for (int swapped : new int[] {0, 3, 5, 7}) {
            LEDGeneratorDrift one = new LEDGeneratorDrift();
            one.numberAttributesDriftOption.setValue(swapped);
            one.instanceRandomSeedOption.setValue(seed + swapped);
            concepts.add(ready(one));
        }
        List<Instance> found = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            long sixteenths = 16L * i / count;
            found.add(next(concepts.get(sixteenths < 3 ? 0 : sixteenths < 6 ? 1 : sixteenths < 12 ? 2 : 3)));
        }
        return found;
    }

    /** The functions 1 to 5, a fifth of the stream each, with gradual drifts over a twenty-fifth of it. */
    private static List<Instance> agrawal(int seed, int count) {
        List<InstanceStream> concepts = new ArrayList<>();
        for (int function = 1; function <= 5; function++) {
            AgrawalGenerator one = new AgrawalGenerator();
            one.functionOption.setValue(function);
            one.instanceRandomSeedOption.setValue(seed + function);
            concepts.add(ready(one));
        }
        Random random = new Random(seed);
        List<Instance> found = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int concept = 0;
            for (int drift = 1; drift < 5; drift++) {
                // As ConceptDriftStream has it.
                double past = 4.0 * (i - drift * count / 5.0) / (count / 25.0);
                if (random.nextDouble() < 1.0 / (1.0 + Math.exp(-past))) {
                    concept = drift;
                }
            }
            found.add(next(concepts.get(concept)));
        }
        return found;
    }

    /** Two attributes, both of whose weights change. */
    private static List<Instance> hyperplane(int seed, int count) {
        HyperplaneGenerator source = new HyperplaneGenerator();
        source.numAttsOption.setValue(2);
        source.numDriftAttsOption.setValue(2);
        source.magChangeOption.setValue(0.001);
        source.instanceRandomSeedOption.setValue(seed);
        ready(source);
        List<Instance> found = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            found.add(next(source));
        }
        return found;
    }

    /** From standard input, one a line: numbers, the last one being the class, 0 or 1. */
    private static List<Instance> given() {
        List<String> lines =
            new BufferedReader(new InputStreamReader(System.in)).lines().collect(Collectors.toList());
        int inputs = lines.get(0).split(",").length - 1;
        List<Attribute> attributes = new ArrayList<>();
        for (int i = 0; i < inputs; i++) {
            attributes.add(new Attribute("x" + i));
        }
        attributes.add(new Attribute("y", List.of("0", "1")));
        InstancesHeader header = new InstancesHeader(new Instances("given", attributes, 0));
        header.setClassIndex(inputs);
        List<Instance> found = new ArrayList<>();
        for (String line : lines) {
            String[] values = line.split(",");
            Instance one = new DenseInstance(inputs + 1);
            one.setDataset(header);
            for (int i = 0; i <= inputs; i++) {
                one.setValue(i, Double.parseDouble(values[i]));
            }
            found.add(one);
        }
        return found;
    }

    private static InstanceStream ready(InstanceStream stream) {
        ((AbstractOptionHandler) stream).prepareForUse();
        stream.restart();
        return stream;
    }

    private static Instance next(InstanceStream stream) {
        return (Instance) stream.nextInstance().getData();
    }
}
