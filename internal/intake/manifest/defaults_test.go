package manifest

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestDefaults(t *testing.T) {
	r := Parse([]byte(`
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  hostNetwork: true
  volumes:
  - name: e
  - {name: h, hostPath: {path: /x}}
  - {name: s, secret: {secretName: s}}
  - {name: c, configMap: {name: c}}
  - {name: d, downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.name}}]}}
  - {name: p, projected: {sources: [{serviceAccountToken: {path: t}}]}}
  - {name: i, image: {reference: localhost/i}}
  initContainers:
  - {name: first, image: localhost/i@sha256:0000}
  containers:
  - name: app
    image: localhost:5000/app
    ports: [{containerPort: 80}]
    env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
    resources: {limits: {cpu: 1, memory: 1.0001}, requests: {cpu: 500m}}
    livenessProbe: {httpGet: {port: 80}}
    readinessProbe: {grpc: {port: 81}}
    lifecycle: {preStop: {httpGet: {port: 80}}}
`))
	if len(r.Problems) > 0 {
		t.Fatalf("unexpected: %q", formatProblems(r.Problems))
	}
	have, err := json.MarshalIndent(r.Pods[0].Spec, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	var want, again v1.PodSpec
	if err := json.Unmarshal([]byte(`{
 "hostNetwork": true,
 "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
 "terminationGracePeriodSeconds": 30, "enableServiceLinks": true, "securityContext": {},
 "volumes": [
  {"name": "e", "emptyDir": {}},
  {"name": "h", "hostPath": {"path": "/x", "type": ""}},
  {"name": "s", "secret": {"secretName": "s", "defaultMode": 420}},
  {"name": "c", "configMap": {"name": "c", "defaultMode": 420}},
  {"name": "d", "downwardAPI": {"defaultMode": 420, "items": [{"path": "p", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}]}},
  {"name": "p", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}]}},
  {"name": "i", "image": {"reference": "localhost/i", "pullPolicy": "Always"}}
 ],
 "initContainers": [{"name": "first", "image": "localhost/i@sha256:0000", "imagePullPolicy": "IfNotPresent", "resources": {},
  "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
 "containers": [{"name": "app", "image": "localhost:5000/app", "imagePullPolicy": "Always",
  "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
  "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
  "env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
  "resources": {"limits": {"cpu": "1", "memory": "1001m"}, "requests": {"cpu": "500m", "memory": "1001m"}},
  "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}, {"resourceName": "memory", "restartPolicy": "NotRequired"}],
  "livenessProbe": {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
  "readinessProbe": {"grpc": {"port": 81, "service": ""}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
  "lifecycle": {"preStop": {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}}}
 }]
}`), &want); err != nil {
		t.Fatal(err)
	}
	wanted, err := json.MarshalIndent(want, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != string(wanted) {
		t.Errorf("have %s\nwant %s", have, wanted)
	}

	// Defaults are filled in once: what has them stays as it is.
	if err := json.Unmarshal(have, &again); err != nil {
		t.Fatal(err)
	}
	p := v1.Pod{Spec: again}
	setDefaults(&p)
	if twice, _ := json.MarshalIndent(p.Spec, "", " "); string(twice) != string(have) {
		t.Errorf("a second time: %s", twice)
	}
}

func TestPullPolicyFollowsTheTag(t *testing.T) {
	for image, want := range map[string]v1.PullPolicy{
		"app":                              v1.PullAlways,
		"app:latest":                       v1.PullAlways,
		"localhost:5000/app":               v1.PullAlways,
		"localhost:5000/app:1":             v1.PullIfNotPresent,
		"app:1":                            v1.PullIfNotPresent,
		"app@sha256:00":                    v1.PullIfNotPresent,
		"localhost:5000/app@sha256:00":     v1.PullIfNotPresent,
		"localhost:5000/app:1@sha256:0000": v1.PullIfNotPresent,
	} {
		if have := pullPolicy(image); have != want {
			t.Errorf("%s: %s, want %s", image, have, want)
		}
	}
}

func TestPodResourcesDefaultToLimits(t *testing.T) {
	r := Parse([]byte(small + "  resources: {limits: {cpu: 2, memory: 1Gi}}\n"))
	if len(r.Problems) > 0 {
		t.Fatalf("unexpected: %q", formatProblems(r.Problems))
	}
	if cpu := r.Pods[0].Spec.Resources.Requests.Cpu(); cpu.String() != "2" {
		t.Errorf("have %s", cpu)
	}
}
