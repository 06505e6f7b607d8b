package kubelet

var (
	ofCAdvisor = noEffect("it is a setting of cAdvisor, which berth does without")
	notStored  = noEffect("measurements are not written to a database")
)

// cadvisorFlags are the flags of cAdvisor, which upstream's kubelet is linked with.
var cadvisorFlags = []Flag{
	{Name: "application-metrics-count-limit", Type: "int", Default: "100", Usage: "limit for metrics of one container", State: ofCAdvisor},
	{Name: "boot-id-file", Type: "string", Default: "/proc/sys/kernel/random/boot_id", Usage: "files with the boot ID", State: ofCAdvisor},
	{Name: "container-hints", Type: "string", Default: "/etc/cadvisor/container_hints.json", Usage: "file with facts about containers", State: ofCAdvisor},
	{Name: "containerd", Type: "string", Default: "/run/containerd/containerd.sock", Usage: "socket of containerd for measurements", State: ofCAdvisor},
	{Name: "containerd-namespace", Type: "string", Default: "k8s.io", Usage: "namespace of containerd for measurements", State: ofCAdvisor},
	{Name: "enable-load-reader", Type: "bool", Default: "false", Usage: "measure the load of processors", State: ofCAdvisor},
	{Name: "event-storage-age-limit", Type: "string", Default: "default=0", Usage: "how long events of containers stay", State: ofCAdvisor},
	{Name: "event-storage-event-limit", Type: "string", Default: "default=0", Usage: "how many events of containers stay", State: ofCAdvisor},
	{Name: "global-housekeeping-interval", Type: "duration", Default: "1m0s", Usage: "time between two cleanups of measurements", State: ofCAdvisor},
	{
		Name: "housekeeping-interval", Type: "duration", Default: "10s", Usage: "time between two measurements of a container",
		State: noEffect("containers are measured on request"),
	},
	{Name: "log-cadvisor-usage", Type: "bool", Default: "false", Usage: "log what measuring costs", State: ofCAdvisor},
	{Name: "machine-id-file", Type: "string", Default: "/etc/machine-id,/var/lib/dbus/machine-id", Usage: "files with the ID of the machine", State: ofCAdvisor},
	{Name: "storage-driver-buffer-duration", Type: "duration", Default: "1m0s", Usage: "how long measurements are buffered", State: notStored},
	{Name: "storage-driver-db", Type: "string", Default: "cadvisor", Usage: "database for measurements", State: notStored},
	{Name: "storage-driver-host", Type: "string", Default: "localhost:8086", Usage: "host of that database", State: notStored},
	{Name: "storage-driver-password", Type: "string", Default: "root", Usage: "password for that database", State: notStored},
	{Name: "storage-driver-secure", Type: "bool", Default: "false", Usage: "whether to reach that database by TLS", State: notStored},
	{Name: "storage-driver-table", Type: "string", Default: "stats", Usage: "table for measurements", State: notStored},
	{Name: "storage-driver-user", Type: "string", Default: "root", Usage: "user of that database", State: notStored},
}
