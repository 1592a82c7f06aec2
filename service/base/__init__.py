"""What every room stands on: settings, problems, field types, logs, metrics, processes."""
