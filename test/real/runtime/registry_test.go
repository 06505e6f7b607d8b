//go:build real

package runtime

import (
	"encoding/json"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/real/kit"
)

// applySecret puts a Secret with a login beside the pods.
func applySecret(n *kit.Node, name, login string) {
	n.T.Helper()
	text, err := json.Marshal(v1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(login)},
	})
	if err != nil {
		n.T.Fatal(err)
	}
	n.ReplaceFile(filepath.Join(n.Manifests, name+".yaml"), text)
}

// podOf is a pod that runs an image until it is stopped.
func podOf(name, image string, secrets ...string) *v1.Pod {
	p := kit.NewPod(name, "sleep")
	p.Spec.Containers[0].Image = image
	for _, s := range secrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s})
	}
	return p
}

// waitRefused waits until a pod's image can't be pulled, and the message contains why.
func waitRefused(n *kit.Node, name, why string) {
	n.T.Helper()
	n.WaitPod(name, "waits for its image", kit.StartTimeout, func(p v1.Pod) string {
		w := kit.AppStatus(p).State.Waiting
		return kit.MissingUnless(w != nil && (w.Reason == "ErrImagePull" || w.Reason == "ImagePullBackOff") && strings.Contains(w.Message, why))
	})
}
