CREATE INDEX IF NOT EXISTS prequential_metrics_by_sequence ON prequential_metrics (stream, stage, estimator, ts);
