package merge

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/lib/pod"
)

// decode makes snapshots out of bytes: few names and UIDs, so that they clash.
func decode(data []byte) []pod.Snapshot {
	var out []pod.Snapshot
	next := func() byte {
		if len(data) == 0 {
			return 0
		}
		b := data[0]
		data = data[1:]
		return b
	}
	sources := []string{pod.SourceFile, pod.SourceHTTP, pod.SourceAPI}
	for len(data) > 0 {
		head := next()
		s := pod.Snapshot{Source: sources[int(head)%3]}
		if head>>2&7 == 0 {
			s.Op = pod.Restore
		}
		if head>>5&3 == 0 {
			s.Refused = []pod.Refusal{{Source: s.Source, Origin: "bad.yaml", Line: int(head >> 7), Message: "not a pod"}}
		}
		for range next() % 6 {
			s.Pods = append(s.Pods, decodePod(next(), next(), s.Source))
		}
		out = append(out, s)
	}
	return out
}

func decodePod(who, what byte, source string) *v1.Pod {
	name := string('a' + rune(who%4))
	uid := name + string('0'+rune(who>>2%3))
	if source != pod.SourceFile && who&0x40 == 0 {
		uid += source // most UIDs are a source's own
	}
	if who >= 0xe0 {
		uid = "shared" // under any name
	}
	p := newPod(name, uid)
	p.Spec.Containers[0].Image = string('a' + rune(what&1))
	switch what >> 1 & 15 {
	case 0:
		p.DeletionTimestamp = &metav1.Time{Time: epoch}
	case 1:
		p.Spec.Containers = nil
	case 2:
		p.UID = ""
	case 3, 4:
		p.Status.Phase = v1.PodRunning
	case 5:
		p.ResourceVersion = "2"
	case 6:
		p.Annotations = map[string]string{pod.AnnotationMirror: "hash"}
	case 7:
		p.Labels = map[string]string{"a": "b"}
	case 8:
		return nil
	}
	return p
}

func deepCopies(pods []*v1.Pod) []*v1.Pod {
	var out []*v1.Pod
	for _, p := range pods {
		out = append(out, p.DeepCopy())
	}
	return out
}
