//go:build real

package intake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/test/cluster/kit"
)

// words are the termination messages of the containers of a pod, by name.
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
	_, admin := kit.SharedNamespace(t, "refers")
	pods := kit.PodsIn(t, admin, "refers")
	_, err := admin.CoreV1().Services("refers").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}},
	}, kit.CreateOptions)
	kit.Must(t, err)

	// given a pod that refers to objects which are not there
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	teller := kit.WithoutRestart(kit.WorkloadPod("teller", "lastwords", "$(GREETING) $(KEY) $(DB_SERVICE_PORT) $(NODE) $(IP)", "0"))
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
	pods.MustCreate(teller)

	// then it says which, and the containers that lack nothing go on
	pods.Await("teller", "waiting for its ConfigMap", func(p *corev1.Pod) bool {
		if p == nil || len(p.Status.ContainerStatuses) != 3 {
			return false
		}
		w := p.Status.ContainerStatuses[0].State.Waiting
		return w != nil && w.Reason == "CreateContainerConfigError" && strings.Contains(w.Message, `configmap "words" not found`) && words(p)["place"] != ""
	})

	// when they come, then it goes on without delay
	_, err = admin.CoreV1().ConfigMaps("refers").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "words"}, Data: map[string]string{"greeting": "hello"},
	}, kit.CreateOptions)
	kit.Must(t, err)
	_, err = admin.CoreV1().Secrets("refers").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "keys"}, StringData: map[string]string{"key": "s3cret"},
	}, kit.CreateOptions)
	kit.Must(t, err)
	done := pods.AwaitWithin(10*time.Second, "teller", "done", kit.HasPhase(corev1.PodSucceeded))
	said := words(done)
	if want := fmt.Sprintf("hello s3cret 5432 %s %s", done.Spec.NodeName, done.Status.PodIP); said["app"] != want {
		t.Errorf("its variables said %q, and should say %q", said["app"], want)
	}
	if said["place"] != "refers" || strings.Count(said["token"], ".") != 2 {
		t.Errorf("its service account is %q with the token %q", said["place"], said["token"])
	}

	// and a pod that wants no variables of services has only those of the API server
	linked, alone := kit.WorkloadPod("linked", "serve", ":7070"), kit.WorkloadPod("alone", "serve", ":7070")
	alone.Spec.EnableServiceLinks = new(false)
	knowsItself(alone)
	onHost := knowsItself(kit.WithoutRestart(kit.WorkloadPod("on-host", "lastwords", "$(status.podIP) $(status.podIPs) $(status.hostIP) $(status.hostIPs)", "0")))
	onHost.Spec.HostNetwork = true
	pods.MustCreate(linked, alone, onHost)
	for name, want := range map[string]string{
		"linked": "DB_PORT DB_PORT_5432_TCP DB_PORT_5432_TCP_ADDR DB_PORT_5432_TCP_PORT DB_PORT_5432_TCP_PROTO DB_SERVICE_HOST DB_SERVICE_PORT " + ofAPIServer,
		"alone":  ofAPIServer,
	} {
		pods.Await(name, "ready", kit.IsReady)
		if got := strings.Join(ofServices(variables(t, pods, name)), " "); got != want {
			t.Errorf("the variables of pod %s are %s, and should be %s", name, got, want)
		}
	}

	// and its fields of the downward API are there
	is := pods.Await("alone", "ready", kit.IsReady)
	env := variables(t, pods, "alone")
	for field, value := range everyField {
		if got, want := env[field], value(is); got != want || want == "" {
			t.Errorf("%s is %q, and should be %q", field, got, want)
		}
	}
	is = pods.Await("on-host", "done", kit.HasPhase(corev1.PodSucceeded))
	if got, ip := words(is)["app"], is.Status.HostIP; got != strings.Join([]string{ip, ip, ip, ip}, " ") {
		t.Errorf("on the network of %s, the addresses are %s", ip, got)
	}
	pods.MustRemove("teller", "linked", "alone", "on-host")
}

// everyField holds the value of each field of a pod that a variable may refer to.
var everyField = map[string]func(*corev1.Pod) string{
	"metadata.name":                func(p *corev1.Pod) string { return p.Name },
	"metadata.namespace":           func(p *corev1.Pod) string { return p.Namespace },
	"metadata.uid":                 func(p *corev1.Pod) string { return string(p.UID) },
	"metadata.labels['tier']":      func(p *corev1.Pod) string { return p.Labels["tier"] },
	"metadata.annotations['note']": func(p *corev1.Pod) string { return p.Annotations["note"] },
	"spec.nodeName":                func(p *corev1.Pod) string { return p.Spec.NodeName },
	"spec.serviceAccountName":      func(p *corev1.Pod) string { return p.Spec.ServiceAccountName },
	"status.hostIP":                func(p *corev1.Pod) string { return p.Status.HostIP },
	"status.hostIPs":               func(p *corev1.Pod) string { return p.Status.HostIPs[0].IP }, // these machines have one
	"status.podIP":                 func(p *corev1.Pod) string { return p.Status.PodIP },
	"status.podIPs":                func(p *corev1.Pod) string { return p.Status.PodIPs[0].IP },
}

// knowsItself gives a pod a variable for each field, which has its name.
func knowsItself(p *corev1.Pod) *corev1.Pod {
	p.Labels, p.Annotations = map[string]string{"tier": "front"}, map[string]string{"note": "hello"}
	for field := range everyField {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{
			Name: field, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: field}},
		})
	}
	return p
}

// ofAPIServer are the variables of the service of the API server, which every pod has.
const ofAPIServer = "KUBERNETES_PORT KUBERNETES_PORT_443_TCP KUBERNETES_PORT_443_TCP_ADDR KUBERNETES_PORT_443_TCP_PORT KUBERNETES_PORT_443_TCP_PROTO " +
	"KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT KUBERNETES_SERVICE_PORT_HTTPS"

// ofServices are the names of the variables that come from services, in their order.
func ofServices(env map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(env)), func(name string) bool {
		return !strings.Contains(name, "_SERVICE_") && !strings.Contains(name, "_PORT")
	})
}

// variables are the environment variables of the container of a pod that serves HTTP.
func variables(t *testing.T, pods kit.Pods, name string) map[string]string {
	t.Helper()
	var text []byte
	kit.Within(t, kit.WaitTimeout, func() (err error) { // it runs for a moment before it listens
		text, err = pods.ProxyGet("http", name, "7070", "/env", nil).DoRaw(t.Context())
		return err
	})
	env := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[key] = value
	}
	return env
}

func TestAPodRunsByItsRuntimeClass(t *testing.T) {
	t.Parallel()
	_, admin := kit.SharedNamespace(t, "classes")
	pods := kit.PodsIn(t, admin, "classes")
	for name, handler := range map[string]string{"plain": "runc", "exotic": "nobody-has-it"} {
		_, err := admin.NodeV1().RuntimeClasses().Create(t.Context(), &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: handler}, kit.CreateOptions)
		kit.Must(t, err)
		p := kit.WorkloadPod(name, "sleep")
		p.Spec.RuntimeClassName = &name
		pods.MustCreate(p)
	}
	pods.Await("plain", "ready", kit.IsReady)
	kit.Within(t, kit.WaitTimeout, func() error {
		events, err := admin.CoreV1().Events("classes").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=exotic,reason=FailedCreatePodSandBox"})
		if err == nil && (len(events.Items) == 0 || !strings.Contains(events.Items[0].Message, "nobody-has-it")) {
			err = fmt.Errorf("its events are %+v", events.Items)
		}
		return err
	})
	pods.MustRemove("plain", "exotic")
}
