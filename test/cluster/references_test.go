//go:build real

package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// words are what the containers of a pod left when they ended, by name.
func words(p *corev1.Pod) map[string]string {
	out := map[string]string{}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			out[c.Name] = c.State.Terminated.Message
		}
	}
	return out
}

func TestAPodFindsWhatItRefersTo(t *testing.T) {
	t.Parallel()
	_, admin := sharedNamespace(t, "refers")
	pods := podsIn(t, admin, "refers")
	_, err := admin.CoreV1().Services("refers").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}},
	}, create)
	must(t, err)

	// given a pod that refers to objects which are not there
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	teller := once(workloadPod("teller", "lastwords", "$(GREETING) $(KEY) $(DB_SERVICE_PORT) $(NODE) $(IP)", "0"))
	teller.Spec.AutomountServiceAccountToken = nil
	teller.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "GREETING", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("words"), Key: "greeting"}}},
		{Name: "KEY", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("keys"), Key: "key"}}},
		{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
		{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
	}
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	for name, file := range map[string]string{"token": account + "token", "place": account + "namespace"} {
		c := teller.Spec.Containers[0]
		c.Name, c.Args, c.Env = name, []string{"quote", file}, nil
		teller.Spec.Containers = append(teller.Spec.Containers, c)
	}
	pods.create(teller)

	// then it says which, and the containers that lack nothing go on
	pods.await("teller", "waiting for its ConfigMap", func(p *corev1.Pod) bool {
		if p == nil || len(p.Status.ContainerStatuses) != 3 {
			return false
		}
		w := p.Status.ContainerStatuses[0].State.Waiting
		return w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, `configmap "words" not found`) && words(p)["place"] != ""
	})

	// when they come, then it goes on without delay
	_, err = admin.CoreV1().ConfigMaps("refers").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "words"}, Data: map[string]string{"greeting": "hello"},
	}, create)
	must(t, err)
	_, err = admin.CoreV1().Secrets("refers").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "keys"}, StringData: map[string]string{"key": "s3cret"},
	}, create)
	must(t, err)
	done := pods.awaitWithin(10*time.Second, "teller", "done", hasPhase(corev1.PodSucceeded))
	said := words(done)
	if want := fmt.Sprintf("hello s3cret 5432 %s %s", done.Spec.NodeName, done.Status.PodIP); said["app"] != want {
		t.Errorf("its variables said %q, and should say %q", said["app"], want)
	}
	if said["place"] != "refers" || strings.Count(said["token"], ".") != 2 {
		t.Errorf("its service account is %q with the token %q", said["place"], said["token"])
	}
	pods.remove("teller")
}

func TestAPodRunsByItsRuntimeClass(t *testing.T) {
	t.Parallel()
	_, admin := sharedNamespace(t, "classes")
	pods := podsIn(t, admin, "classes")
	for name, handler := range map[string]string{"plain": "runc", "exotic": "nobody-has-it"} {
		_, err := admin.NodeV1().RuntimeClasses().Create(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}, create)
		must(t, err)
		p := workloadPod(name, "sleep")
		p.Spec.RuntimeClassName = &name
		pods.create(p)
	}
	pods.await("plain", "ready", isReady)
	within(t, patience, func() error {
		events, err := admin.CoreV1().Events("classes").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=exotic,reason=FailedCreatePodSandBox"})
		if err == nil && (len(events.Items) == 0 || !strings.Contains(events.Items[0].Message, "nobody-has-it")) {
			err = fmt.Errorf("its events are %+v", events.Items)
		}
		return err
	})
	pods.remove("plain", "exotic")
}
