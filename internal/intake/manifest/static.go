package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth/internal/lib/pod"
)

// Static returns p as a pod of this node. It needs a pod that Parse returned;
// origin is the file or URL that it came from.
//
// The UID is made from the content, so that the same manifest is the same pod
// after a restart, and a changed one is a new pod. Comments and layout do not
// count. A change to the defaults that Parse fills in does: who remembers a pod by its
// Digest keeps the UID that it had.
func Static(p *v1.Pod, node, source, origin string) (*v1.Pod, error) {
	p = p.DeepCopy()
	node = strings.ToLower(node)
	p.Name = StaticName(p.Name, node)
	p.Spec.NodeName = node
	if p.UID == "" {
		uid, err := contentUID(p, node, source, origin)
		if err != nil {
			return nil, fmt.Errorf("make a UID for pod %s: %w", pod.Ref(p), err)
		}
		p.UID = uid
	}
	if p.Annotations == nil {
		p.Annotations = make(map[string]string)
	}
	p.Annotations[pod.AnnotationHash] = string(p.UID)
	p.Annotations[pod.AnnotationSource] = source
	if source == pod.SourceFile {
		tolerateEviction(p)
	}
	return p, nil
}

// StaticName is the name that a manifest's pod has on a node: with the node's
// name at its end. A name that has it already is left alone.
func StaticName(name, node string) string {
	const longestNode = 128 // leaves room for the pod's own name
	suffix := "-" + cut(strings.ToLower(node), longestNode)
	if strings.HasSuffix(name, suffix) {
		return name
	}
	return cut(name, validation.DNS1123SubdomainMaxLength-len(suffix)) + suffix
}

// cut shortens a DNS name to at most most bytes. A hash of all of it keeps it
// apart from others that begin alike.
func cut(name string, most int) string {
	if len(name) <= most {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	mark := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:most-len(mark)], "-.") + mark
}

// contentUID hashes what makes the pod what it is. The JSON of a struct has its
// fields in a fixed order and its map keys sorted.
func contentUID(p *v1.Pod, node, source, origin string) (pod.UID, error) {
	raw, err := json.Marshal(struct {
		Pod                  *v1.Pod
		Node, Source, Origin string
	}{p, node, source, origin})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	// The form of a UUID of version 8, which is the one for home-made contents.
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	return pod.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])), nil
}

// tolerateEviction keeps a pod from the folder on its node whatever taints the
// node gets: nothing but the folder may end it.
func tolerateEviction(p *v1.Pod) {
	all := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	if !slices.Contains(p.Spec.Tolerations, all) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, all)
	}
}
