package metrics

import (
	"time"

	dto "github.com/prometheus/client_model/go"

	"berth/internal/telemetry/stats"
)

// claimFamilies say how full the volumes of claims are.
func claimFamilies(claims []stats.Claim) []*dto.MetricFamily {
	capacity := gauge("kubelet_volume_stats_capacity_bytes", "Size of a volume.")
	available := gauge("kubelet_volume_stats_available_bytes", "Bytes of a volume that are free to use.")
	used := gauge("kubelet_volume_stats_used_bytes", "Bytes of a volume that are used.")
	inodes := gauge("kubelet_volume_stats_inodes", "Inodes of a volume.")
	free := gauge("kubelet_volume_stats_inodes_free", "Free inodes of a volume.")
	taken := gauge("kubelet_volume_stats_inodes_used", "Inodes of a volume that are used.")
	for _, c := range claims {
		labels := labelled("namespace", c.Namespace, "persistentvolumeclaim", c.Name)
		capacity.addIf(labels, c.Capacity, time.Time{})
		available.addIf(labels, c.Available, time.Time{})
		used.addIf(labels, c.Used, time.Time{})
		inodes.addIf(labels, c.Inodes, time.Time{})
		free.addIf(labels, c.InodesFree, time.Time{})
		taken.addIf(labels, c.InodesUsed, time.Time{})
	}
	return listed(capacity, available, used, inodes, free, taken)
}

// logFamilies returns the size of the logs of each container.
func logFamilies(logs []stats.Log) []*dto.MetricFamily {
	used := gauge("kubelet_container_log_filesystem_used_bytes", "Bytes of the logs of a container.")
	for _, l := range logs {
		used.addIf(labelled("container", l.Container, "namespace", l.Namespace, "pod", l.Pod, "uid", string(l.UID)), l.Used, time.Time{})
	}
	return listed(used)
}
