//go:build real

package kubeadm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// deployment is a web server on all nodes.
var deployment = fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      automountServiceAccountToken: true
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
      containers:
      - name: app
        image: %s/workload:1
        args: [serve, ":8080"]
        readinessProbe: {httpGet: {port: 8080}}
`, replicas, repository)

// webPod is a pod of the Deployment.
type webPod struct {
	name, uid, node, address string
	container                string // its ID, which is another after a restart
}

type webPods []webPod

// on returns the pods on a node.
func (all webPods) on(node string) webPods {
	return slices.DeleteFunc(slices.Clone(all), func(p webPod) bool { return p.node != node })
}

func (all webPods) names() []string {
	var names []string
	for _, p := range all {
		names = append(names, p.name)
	}
	return names
}

// pods returns the pods with that label app, in the order of their names.
func (m *machine) pods(app string) webPods {
	m.t.Helper()
	const columns = `{range .items[*]}{.metadata.name} {.metadata.uid} {.spec.nodeName} {.status.podIP} {.status.containerStatuses[0].containerID}{"\n"}{end}`
	var pods webPods
	for line := range strings.Lines(m.run("kubectl", "get", "pods", "-l", "app="+app, "-o", "jsonpath="+columns)) {
		words := strings.Fields(line)
		if len(words) != 5 {
			m.t.Fatalf("a pod does not run: %s", line)
		}
		pods = append(pods, webPod{name: words[0], uid: words[1], node: words[2], address: words[3], container: words[4]})
	}
	return pods
}

// mustReach fails the test unless the pod answers requests from the machine.
func (m *machine) mustReach(p webPod) {
	m.t.Helper()
	transport := &http.Transport{DialContext: m.network.Dial}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, "http://"+p.address+":8080/", nil)
	must(m.t, err)
	answer, err := (&http.Client{Transport: transport}).Do(request)
	must(m.t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		m.t.Errorf("pod %s answers %s", p.name, answer.Status)
	}
}

// edit changes a configuration that kubeadm keeps in the cluster.
func (m *machine) edit(configMap, key string, change func(string) string) {
	m.t.Helper()
	config := m.run("kubectl", "-n", "kube-system", "get", "configmap", configMap, "-o", "jsonpath={.data."+key+"}")
	changed := change(config)
	if changed == config {
		m.t.Fatalf("nothing changes in %s", config)
	}
	patch, err := json.Marshal(map[string]any{"data": map[string]string{key: changed}})
	must(m.t, err)
	m.run("kubectl", "-n", "kube-system", "patch", "configmap", configMap, "--type=merge", "-p", string(patch))
}
