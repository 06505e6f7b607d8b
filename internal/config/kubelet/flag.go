package kubelet

// Flag is one flag of the kubelet.
type Flag struct {
	Name      string
	Shorthand string
	Type      string // the type in upstream's help, by which its parser is chosen
	// Field is the field of the KubeletConfiguration that the flag sets. The effect of the flag is that of the
	// field. Empty: the flag sets no field.
	Field string
	// State, Default and Usage are set for flags without a field.
	State   State
	Default string
	Usage   string
	// Removed says that kubelet 1.36 no longer has the flag. Older tools still write it.
	Removed bool
}

// state returns the effect of a flag, or of the field that it sets.
func (f Flag) state() State {
	if f.Field != "" {
		return fields[f.Field]
	}
	return f.State
}

// allFlags returns the whole table.
func allFlags() []Flag {
	var out []Flag
	for _, table := range [][]Flag{nodeFlags, fieldFlags, loggingFlags, cadvisorFlags} {
		out = append(out, table...)
	}
	return out
}
