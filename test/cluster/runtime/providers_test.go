//go:build real

package runtime

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"berth/test/cluster/kit"
	"berth/test/fixture"
	"berth/test/lab"
	"berth/test/lab/control"
)

const (
	hubHost     = "127.0.0.1:5000"         // a registry on the node's loopback
	hubAudience = "hub"                    // for which the provider wants tokens
	hubRole     = "hub.example/role"       // the annotation by which accounts have to do with it
	hubUser     = "robot"                  // who may pull
	hubConfig   = "  tokenAttributes:\n" + // of a provider of credentials for it
		"    serviceAccountTokenAudience: " + hubAudience + "\n" +
		"    requireServiceAccount: true\n" +
		"    cacheType: ServiceAccount\n" +
		"    requiredServiceAccountAnnotationKeys: [" + hubRole + "]\n"
)

// hubProvider is a credential provider that accepts the tokens of one service account, which has the
// role of a reader, and records each request.
func hubProvider(namespace, account string) string {
	return `#!/bin/sh
request=$(cat)
printf '%s\n' "$request" >> "$0.asked"
need() {
	case $1 in *"$2"*) ;; *) echo "I miss $2" >&2; exit 1 ;; esac
}
need "$request" '"serviceAccountAnnotations":{"` + hubRole + `":"reader"}'
claims=$(printf '%s' "$request" | sed -n 's/.*"serviceAccountToken":"[^".]*\.\([^".]*\)\..*/\1/p' | tr '_-' '/+' | base64 -d 2>/dev/null)
need "$claims" '"aud":["` + hubAudience + `"]'
need "$claims" '"kubernetes.io":{"namespace":"` + namespace + `"'
need "$claims" '"serviceaccount":{"name":"` + account + `"'
echo '` + fixture.ProviderAnswer(hubHost, hubUser) + "'\n"
}

// serveHub starts the registry of a node, and returns the name of its image.
func serveHub(t *testing.T, n *lab.Node) string {
	t.Helper()
	const name = "team/app:1"
	program, err := fixture.Build("workload")
	kit.Must(t, err)
	registry := fixture.NewRegistry(t)
	registry.Push(name, program, 1000)
	listener, err := n.Namespace.Listen(t.Context(), "tcp", hubHost)
	kit.Must(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fixture.LoggedIn(w, r, hubUser) {
			registry.ServeHTTP(w, r)
		}
	})}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return hubHost + "/" + name
}

func makeAccount(t *testing.T, admin kubernetes.Interface, namespace, name string, annotations map[string]string) {
	t.Helper()
	_, err := admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
	}, kit.CreateOptions)
	kit.Must(t, err)
}

// allowAudience lets all nodes have tokens for an audience that no volume of a pod names.
func allowAudience(t *testing.T, admin kubernetes.Interface, audience string) {
	t.Helper()
	meta := metav1.ObjectMeta{Name: "tokens-for-" + audience}
	_, err := admin.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{audience}, Verbs: []string{"request-serviceaccounts-token-audience"},
	}}}, kit.CreateOptions)
	kit.Must(t, err)
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:nodes"}},
	}, kit.CreateOptions)
	kit.Must(t, err)
}

// awaitRefused returns once a pod can't have its image, and its status says why.
func awaitRefused(p kit.Pods, name string, why ...string) {
	p.T.Helper()
	var said string
	p.Await(name, fmt.Sprintf("refused its image because of %q", why), func(pod *corev1.Pod) bool {
		if pod == nil || len(pod.Status.ContainerStatuses) == 0 {
			return false
		}
		waiting := pod.Status.ContainerStatuses[0].State.Waiting
		if waiting == nil || waiting.Reason != "ErrImagePull" && waiting.Reason != "ImagePullBackOff" {
			return false
		}
		said = waiting.Message
		for _, text := range why {
			if !strings.Contains(said, text) {
				return false
			}
		}
		return true
	})
	p.T.Logf("%s: %s", name, said)
}

func TestPodsPullAsTheirServiceAccount(t *testing.T) {
	t.Parallel()
	// given a registry that wants a login, a program that knows it, and a node that asks it
	const namespace, reader = "providers", "reader"
	plane := kit.NewPlane(t)
	admin := kit.Client(t, plane, control.Admin())
	dir := t.TempDir()
	n := kit.JoinNodeAs(t, plane, lab.NodeConfig{Name: "one", Flags: fixture.CredentialProvider(t, dir, hubHost, hubProvider(namespace, reader), hubConfig)})
	image := serveHub(t, n)
	kit.MakeNamespace(t, admin, namespace)
	makeAccount(t, admin, namespace, reader, map[string]string{hubRole: "reader"})
	makeAccount(t, admin, namespace, "plain", nil)
	makeAccount(t, admin, namespace, "stranger", map[string]string{hubRole: "reader"})
	pods := kit.PodsIn(t, admin, namespace)
	start := func(name, account string) {
		t.Helper()
		p := kit.OnNode(kit.WorkloadPod(name, "activity", "providers-"+name, "0s"), "one")
		p.Spec.ServiceAccountName, p.Spec.Containers[0].Image = account, image
		pods.MustCreate(p)
	}
	mustBeAsked := func(want int) {
		t.Helper()
		asked, err := os.ReadFile(filepath.Join(dir, "helper.asked"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if got := strings.Count(string(asked), "\n"); got != want {
			t.Errorf("the provider was asked %d times, not %d:\n%s", got, want, asked)
		}
	}

	// when its administrator forgot to let nodes have tokens for that audience, then the pod says what to do
	start("web", reader)
	awaitRefused(pods, "web", "authorization failed", "request-serviceaccounts-token-audience", hubAudience)
	mustBeAsked(0)

	// when they may, then it runs
	allowAudience(t, admin, hubAudience)
	pods.Await("web", "ready", kit.IsReady)
	mustBeAsked(1)

	// and the image that is there now is for pods of that account, and for no others
	start("more", reader)
	start("plain", "plain")
	pods.Await("more", "ready", kit.IsReady)
	awaitRefused(pods, "plain", "authorization failed", hubRole)
	mustBeAsked(1)
	start("stranger", "stranger")
	awaitRefused(pods, "stranger", "authorization failed", `I miss \"serviceaccount\"`)

	// when the service account can't be read, then containers of its pods start again all the same
	plane.Kill(control.APIServer)
	before := kit.ProcessesWith(t, "providers-web")
	for _, pid := range before {
		kit.Must(t, syscall.Kill(pid, syscall.SIGTERM))
	}
	kit.Within(t, kit.WaitTimeout, func() error {
		now := kit.ProcessesWith(t, "providers-web")
		if len(now) != 1 || now[0] == before[0] {
			return fmt.Errorf("its processes are %v, and were %v", now, before)
		}
		return nil
	})
}
