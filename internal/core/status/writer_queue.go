package status

import (
	"slices"

	"berth/internal/lib/pod"
)

// fairShare is how many urgent pods go ahead before one of the others has its turn.
const fairShare = 8

// lanes is the order in which pods are written: urgent pods first, and otherwise first in, first
// out. It is called by the work queue only, under the queue's lock, and holds a pod at most once.
// isUrgent reads the state of the writer.
type lanes struct {
	isUrgent func(pod.UID) bool
	urgent   []pod.UID
	others   []pod.UID
	ahead    int // urgent pods since another one had its turn
}

// Touch is called for a pod that is in the queue and was added again.
func (l *lanes) Touch(uid pod.UID) {
	i := slices.Index(l.others, uid)
	if i >= 0 && l.isUrgent(uid) {
		l.others = slices.Delete(l.others, i, i+1)
		l.urgent = append(l.urgent, uid)
	}
}

// Push puts a pod at the end of its lane.
func (l *lanes) Push(uid pod.UID) {
	if l.isUrgent(uid) {
		l.urgent = append(l.urgent, uid)
	} else {
		l.others = append(l.others, uid)
	}
}

// Len is the number of pods in the queue.
func (l *lanes) Len() int { return len(l.urgent) + len(l.others) }

// Pop takes the next pod out. There is one: the queue asks for Len first.
func (l *lanes) Pop() pod.UID {
	lane := &l.urgent
	l.ahead++
	if len(l.urgent) == 0 || (len(l.others) > 0 && l.ahead > fairShare) {
		lane = &l.others
		l.ahead = 0
	}
	uid := (*lane)[0]
	*lane = slices.Delete(*lane, 0, 1)
	return uid
}
