package metrics

// Feature is a feature gate.
type Feature struct {
	Name    string
	Stage   string // ALPHA, BETA or DEPRECATED; empty for GA
	Enabled bool
}

func (p present) features(emit emitFunc) {
	for _, f := range p.pages.Features {
		enabled := 0.0
		if f.Enabled {
			enabled = 1
		}
		emit("kubernetes_feature_enabled", "Whether a feature is enabled (1) or not (0).", enabled, "name", f.Name, "stage", f.Stage)
	}
}

// Plugin is a socket in the directory of plugins.
type Plugin struct {
	Socket     string
	Registered bool
}

func (p present) plugins(emit emitFunc) {
	if p.pages.Plugins == nil {
		return
	}
	const name, help = "plugin_manager_total_plugins", "Plugins by their sockets: those that were found, and those that are registered."
	for _, plugin := range p.pages.Plugins() {
		emit(name, help, 1, "socket_path", plugin.Socket, "state", "desired_state_of_world")
		if plugin.Registered {
			emit(name, help, 1, "socket_path", plugin.Socket, "state", "actual_state_of_world")
		}
	}
}

// ProtectedMemory is memory in bytes that memory QoS keeps for pods: Min is never reclaimed, and Low last.
type ProtectedMemory struct{ Min, Low int64 }

func (p present) protectedMemory(emit emitFunc) {
	if p.pages.ProtectedMemory == nil {
		return
	}
	memory := p.pages.ProtectedMemory()
	emit("kubelet_memory_qos_node_memory_min_bytes", "Memory of Guaranteed pods that is never reclaimed.", float64(memory.Min))
	emit("kubelet_memory_qos_node_memory_low_bytes", "Memory of Burstable pods that is reclaimed last.", float64(memory.Low))
}
