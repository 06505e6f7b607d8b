package kubelet

// loggingFlags are the flags for the log of the agent.
var loggingFlags = []Flag{
	{Name: "v", Shorthand: "v", Type: "Level", Field: "logging.verbosity"},
	{Name: "vmodule", Type: "pattern=N,...", Field: "logging.vmodule"},
	{Name: "logging-format", Type: "string", Field: "logging.format"},
	{Name: "log-flush-frequency", Type: "duration", Field: "logging.flushFrequency"},
	{Name: "log-text-split-stream", Type: "bool", Field: "logging.options.text.splitStream"},
	{Name: "log-text-info-buffer-size", Type: "quantity", Field: "logging.options.text.infoBufferSize"},
}
