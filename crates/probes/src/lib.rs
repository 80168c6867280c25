//! System data sources: ftrace, process and system statistics.
