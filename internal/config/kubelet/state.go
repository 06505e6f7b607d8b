package kubelet

// Effect is what becomes of a flag or a field that is set.
type Effect int

// The effects of flags and fields.
const (
	// InEffect: the agent does what the flag or field asks for.
	InEffect Effect = iota
	// AsKubelet: it is in effect under the name kubelet, and has no effect in the configuration of 'berth run'.
	AsKubelet
	// NoEffect: it is accepted and changes nothing; a warning at the start says so.
	NoEffect
	// Refused: the agent does not start, since it would be dangerous to ignore it.
	Refused
)

func (e Effect) String() string {
	return [...]string{"in effect", "in effect", "no effect", "refused"}[e]
}

// State is the effect of a flag or a field. Reason explains the effects other than InEffect.
type State struct {
	Effect Effect
	Reason string
}

var (
	inEffect  = State{}
	asKubelet = State{Effect: AsKubelet, Reason: "not in the configuration of 'berth run'"}
)

func noEffect(reason string) State { return State{Effect: NoEffect, Reason: reason} }

func refused(reason string) State { return State{Effect: Refused, Reason: reason} }
