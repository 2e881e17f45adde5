import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.io.compress.GzipCodec;
import org.apache.hadoop.mapred.JobClient;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.MapReduceBase;
import org.apache.hadoop.mapred.OutputCollector;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import tfprov.hadoop.TFRecordFileInputFormat;
import tfprov.hadoop.TFRecordFileInputFormatV1;
import tfprov.hadoop.TFRecordFileOutputFormat;
import tfprov.hadoop.TFRecordFileOutputFormatV1;

/**
 * Counts the words of records that are text, and writes a record "WORD COUNT" for each: IN OUT, once through Hadoop's
 * current interface into OUT/new (gzip), and once through its older one into OUT/old. Prints how many tasks mapped.
 */
public final class WordCount {
  private static final String COUNTERS = "words";

  public static void main(String[] arguments) throws Exception {
    Path input = new Path(arguments[0]);
    Configuration conf = new Configuration();
    conf.set("mapreduce.jobtracker.staging.root.dir", System.getProperty("java.io.tmpdir") + "/staging");
    conf.set("mapreduce.framework.name", "local");
    conf.set("hadoop.tmp.dir", arguments[1] + "/tmp");
    conf.setLong("mapreduce.input.fileinputformat.split.maxsize", Long.parseLong(arguments[2]));
    countNew(conf, input, new Path(arguments[1], "new"));
    countOld(conf, input, new Path(arguments[1], "old"));
  }

  private static void countNew(Configuration conf, Path input, Path output) throws Exception {
    Job job = Job.getInstance(conf);
    job.setInputFormatClass(TFRecordFileInputFormat.class);
    job.setOutputFormatClass(TFRecordFileOutputFormat.class);
    job.setMapperClass(Words.class);
    job.setReducerClass(Sum.class);
    job.setMapOutputKeyClass(Text.class);
    job.setMapOutputValueClass(LongWritable.class);
    FileInputFormat.addInputPath(job, input);
    FileOutputFormat.setOutputPath(job, output);
    FileOutputFormat.setCompressOutput(job, true);
    FileOutputFormat.setOutputCompressorClass(job, GzipCodec.class);
    if (!job.waitForCompletion(false)) {
      throw new IOException(String.valueOf(job.getStatus().getFailureInfo()));
    }
    System.out.println("new: " + job.getCounters().findCounter(COUNTERS, "tasks").getValue());
  }

  private static void countOld(Configuration conf, Path input, Path output) throws Exception {
    JobConf job = new JobConf(conf);
    job.setInputFormat(TFRecordFileInputFormatV1.class);
    job.setOutputFormat(TFRecordFileOutputFormatV1.class);
    job.setMapperClass(OldWords.class);
    job.setReducerClass(OldSum.class);
    job.setMapOutputKeyClass(Text.class);
    job.setMapOutputValueClass(LongWritable.class);
    org.apache.hadoop.mapred.FileInputFormat.addInputPath(job, input);
    org.apache.hadoop.mapred.FileOutputFormat.setOutputPath(job, output);
    System.out.println("old: " + JobClient.runJob(job).getCounters().findCounter(COUNTERS, "tasks").getValue());
  }

  private static String[] words(BytesWritable record) {
    return new String(record.getBytes(), 0, record.getLength(), StandardCharsets.UTF_8).split(" ");
  }

  private static BytesWritable line(Text word, long count) {
    return new BytesWritable((word + " " + count).getBytes(StandardCharsets.UTF_8));
  }

  /** Maps a record to its words. */
  public static final class Words extends Mapper<BytesWritable, NullWritable, Text, LongWritable> {
    @Override
    protected void setup(Context context) {
      context.getCounter(COUNTERS, "tasks").increment(1);
    }

    @Override
    protected void map(BytesWritable record, NullWritable none, Context context)
        throws IOException, InterruptedException {
      for (String word : words(record)) {
        context.write(new Text(word), new LongWritable(1));
      }
    }
  }

  /** Adds the counts of a word. */
  public static final class Sum extends Reducer<Text, LongWritable, BytesWritable, NullWritable> {
    @Override
    protected void reduce(Text word, Iterable<LongWritable> counts, Context context)
        throws IOException, InterruptedException {
      long sum = 0;
      for (LongWritable count : counts) {
        sum += count.get();
      }
      context.write(line(word, sum), NullWritable.get());
    }
  }

  /** The same through the older interface. */
  public static final class OldWords extends MapReduceBase
      implements org.apache.hadoop.mapred.Mapper<BytesWritable, NullWritable, Text, LongWritable> {
    private boolean counted;

    @Override
    public void map(BytesWritable record, NullWritable none, OutputCollector<Text, LongWritable> out, Reporter reporter)
        throws IOException {
      if (!counted) {
        reporter.incrCounter(COUNTERS, "tasks", 1);
        counted = true;
      }
      for (String word : words(record)) {
        out.collect(new Text(word), new LongWritable(1));
      }
    }
  }

  /** The same through the older interface. */
  public static final class OldSum extends MapReduceBase
      implements org.apache.hadoop.mapred.Reducer<Text, LongWritable, BytesWritable, NullWritable> {
    @Override
    public void reduce(
        Text word, Iterator<LongWritable> counts, OutputCollector<BytesWritable, NullWritable> out, Reporter reporter)
        throws IOException {
      long sum = 0;
      while (counts.hasNext()) {
        sum += counts.next().get();
      }
      out.collect(line(word, sum), NullWritable.get());
    }
  }
}
