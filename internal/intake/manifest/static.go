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

// Static returns p, a pod that Parse has returned, as a static pod of this node. origin is the
// file or URL of its manifest.
//
// The UID is a hash of the content, so that the same manifest is the same pod
// after a restart, and a changed one is a new pod. Comments and layout do not
// count. A change of the defaults that Parse sets does: sources remember the UID of a pod
// by its Digest, so that a new version of berth does not change it.
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

// StaticName returns the name of a static pod: the name in its manifest with the name of the
// node as suffix. A name that ends in the suffix already stays.
func StaticName(name, node string) string {
	const longestNode = 128 // leaves room for the pod's own name
	suffix := "-" + shorten(strings.ToLower(node), longestNode)
	if strings.HasSuffix(name, suffix) {
		return name
	}
	return shorten(name, validation.DNS1123SubdomainMaxLength-len(suffix)) + suffix
}

// shorten shortens a DNS name to at most limit bytes. A hash of the whole name at its end keeps
// it apart from other names with the same beginning.
func shorten(name string, limit int) string {
	if len(name) <= limit {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	mark := "-" + hex.EncodeToString(sum[:4])
	return strings.TrimRight(name[:limit-len(mark)], "-.") + mark
}

// contentUID hashes the content of a pod, its node, source and origin. The JSON of a struct has its
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
	// The form of a UUID of version 8, the version for custom contents.
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	return pod.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])), nil
}

// tolerateEviction adds a toleration of all NoExecute taints to a pod of the folder: only the
// folder may end it.
func tolerateEviction(p *v1.Pod) {
	all := v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}
	if !slices.Contains(p.Spec.Tolerations, all) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, all)
	}
}
