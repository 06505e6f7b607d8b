package kubelet

// Effect says whether a flag or a field that is set has an effect.
type Effect int

// The effects of flags and fields.
const (
	// InEffect: the agent does what the flag or field asks for.
	InEffect Effect = iota
	// AsKubelet: the flag or field has an effect if the agent was started as kubelet, and none in the
	// configuration of 'berth run'.
	AsKubelet
	// NoEffect: the flag or field is accepted and ignored, with a warning at the start.
	NoEffect
	// Refused: the agent does not start, since ignoring the flag or field would be dangerous.
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
