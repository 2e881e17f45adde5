package tfprov.hadoop;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.FileInputFormat;
import org.apache.hadoop.mapred.FileSplit;
import org.apache.hadoop.mapred.InputSplit;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

/** {@link TFRecordFileInputFormat} for Hadoop's older interface, {@code org.apache.hadoop.mapred}. */
public class TFRecordFileInputFormatV1 extends FileInputFormat<BytesWritable, NullWritable> {
  private Configuration conf = new Configuration();

  /** Keeps the job's configuration for {@link #isSplitable}, which is not passed one. */
  @Override
  public InputSplit[] getSplits(JobConf job, int count) throws IOException {
    conf = job;
    return super.getSplits(job, count);
  }

  @Override
  protected boolean isSplitable(FileSystem files, Path file) {
    return SplitReader.isSplitable(conf, file);
  }

  @Override
  public RecordReader<BytesWritable, NullWritable> getRecordReader(InputSplit split, JobConf job, Reporter reporter)
      throws IOException {
    FileSplit part = (FileSplit) split;
    return new Reader(new SplitReader(job, part.getPath(), part.getStart(), part.getLength()));
  }

  private static final class Reader implements RecordReader<BytesWritable, NullWritable> {
    private final SplitReader records;

    Reader(SplitReader records) {
      this.records = records;
    }

    @Override
    public boolean next(BytesWritable key, NullWritable value) throws IOException {
      return records.next(key);
    }

    @Override
    public BytesWritable createKey() {
      return new BytesWritable();
    }

    @Override
    public NullWritable createValue() {
      return NullWritable.get();
    }

    @Override
    public long getPos() throws IOException {
      return records.position();
    }

    @Override
    public float getProgress() throws IOException {
      return records.progress();
    }

    @Override
    public void close() throws IOException {
      records.close();
    }
  }
}
