package pods

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth/internal/api"
	"berth/internal/api/localapi"
	"berth/internal/cli/clitest"
	"berth/internal/lib/pod"
	"berth/internal/telemetry/event"
)

// crashingFindings returns the details of crashingPod.
func crashingFindings() details {
	return details{
		probes:  []api.ProbeResult{{Container: "app", Kind: "Liveness", At: clitest.BeforeNoon(5 * time.Second).Time, Outcome: "failed", Output: "HTTP 500", InARow: 2, Ended: true}},
		volumes: []api.Volume{{Name: "data", Kind: "emptyDir", Source: "disk", Path: "/p/data", Capacity: new(int64(1 << 20)), Used: new(int64(512))}},
		refused: []pod.Refusal{{Origin: "/m/web.yaml", Line: 7, Pod: "x/web-node-1", Message: "no such field", Kept: true}},
	}
}

const crashing = `
Name:         web-node-1
Namespace:    x
Priority:     7
Node:         node-1/10.0.0.1
Start Time:   Fri, 02 Jan 2026 11:00:00 +0000
Labels:       app=web
              tier=front
Annotations:  big: YYY...
              note: two lines
Status:       Running
Reason:       Because
Message:      first
              second
IP:           10.1.0.7
IPs:
  IP:  10.1.0.7
  IP:  fd00::7
Refused:  /m/web.yaml:7: no such field (pod x/web-node-1; the last good version keeps running)
Init Containers:
  proxy:
    Image:           localhost/proxy:1
    Port:            <none>
    Restart Policy:  Always
    Environment:     <none>
    Mounts:          <none>
Containers:
  app:
    Container ID:      containerd://two
    Image:             localhost/app:1
    Image ID:          sha256:abc
    Ports:             80/TCP, 53/UDP
    Host Ports:        8080/TCP, 0/UDP
    Command:           /app
                       --serve
    Args:              -v
    State:             Waiting
      Reason:          CrashLoopBackOff
      Message:         back-off 40s
    Last State:        Terminated
      Reason:          Error
      Message:         bad [31m
                       worse
      Exit Code:       1
      Started:         Fri, 02 Jan 2026 11:58:00 +0000
      Finished:        Fri, 02 Jan 2026 11:59:00 +0000
    Ready:             False
    Restart Count:     3
    Limits:
      cpu:     500m
      memory:  64Mi
    Requests:
      cpu:  100m
    Liveness:          http-get http://:80/healthz delay=0s timeout=1s period=10s #success=1 #failure=3
    Environment From:  config map all
    Environment:
      MODE:   fast
      EMPTY:
      NODE:   <field spec.nodeName of the pod>
      TOKEN:  <key k of secret s>
    Mounts:            /data from data (rw)
                       /etc/app from conf (ro, path a)
Probes:
  Container   Kind       Last     Times   Age   Message
  app         Liveness   failed   2       5s    before its restart: HTTP 500
Conditions:
  Type          Status   Reason               Message
  Initialized   True
  Ready         False    ContainersNotReady   app
Volumes:
  data:
    Type:    emptyDir
    Source:  disk
    Path:    /p/data
    Size:    1.0Mi (512 used)
QoS Class:  Burstable
Events:
  Type      Reason    Age                 From            Message
  ----      ------    ----                ----            -------
  Normal    Pulled    30m                 berth, node-1   Image is there
  Warning   BackOff   20s (x4 over 10m)   berth, node-1   Back-off restarting
`

func TestDescribe(t *testing.T) {
	pulled, backOff := clitest.NewEvent("x", "web", "Pulled", "Image is there", 0), clitest.Repeated(clitest.NewEvent("x", "web", "BackOff", "Back-off restarting", 0), 4, 0)
	pulled.FirstTimestamp, pulled.LastTimestamp = clitest.BeforeNoon(30*time.Minute), clitest.BeforeNoon(30*time.Minute)
	backOff.FirstTimestamp, backOff.LastTimestamp = clitest.BeforeNoon(10*time.Minute), clitest.BeforeNoon(20*time.Second)
	got := describe(clitest.CrashingPod(), []v1.Event{*pulled, *backOff}, crashingFindings(), clitest.Noon())
	want := strings.Replace(strings.TrimPrefix(crashing, "\n"), "YYY", strings.Repeat("y", 140), 1)
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || strings.TrimRight(gotLines[i], " ") != wantLines[i] {
			t.Fatalf("line %d differs, got\n%s", i+1, got)
		}
	}
}

func TestDescribeAPodThatIsBarelyThere(t *testing.T) {
	p := clitest.RunningPod("x", "web")
	p.Spec.Containers = []v1.Container{{Name: "app", Image: "localhost/app:1"}}
	p.Status = v1.PodStatus{Phase: v1.PodPending}
	got := describe(p, nil, details{}, clitest.Noon())
	for _, want := range []string{
		"Labels:       <none>\n", "Status:       Pending\n", "IP:           <none>\n", "    Image:        localhost/app:1\n",
		"Conditions:  <none>\n", "QoS Class:  <none>\n", "Events:  <none>\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(clitest.BeforeNoon(5*time.Second)), new(int64(30))
	got = describe(p, nil, details{}, clitest.Noon())
	for _, want := range []string{"Status:        Terminating (for 5s)\n", "Grace Period:  30s\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

func TestProbeTarget(t *testing.T) {
	for want, handler := range map[string]v1.ProbeHandler{
		"exec [cat /ok]":              {Exec: &v1.ExecAction{Command: []string{"cat", "/ok"}}},
		"tcp-socket :5432":            {TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(5432)}},
		"grpc :9000 ready":            {GRPC: &v1.GRPCAction{Port: 9000, Service: new("ready")}},
		"http-get https://h:web/a?b=": {HTTPGet: &v1.HTTPGetAction{Scheme: "HTTPS", Host: "h", Port: intstr.FromString("web"), Path: "a?b="}},
		"unknown":                     {},
	} {
		if got := probeTarget(&v1.Probe{ProbeHandler: handler}); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDescribePod(t *testing.T) {
	events, err := event.OpenStore(event.StoreConfig{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	a := clitest.StartAgent(t, root, func(c *localapi.Config) { c.Events = events })
	a.Set(nil, clitest.RunningPod("x", "web", "app"), clitest.RunningPod("y", "web", "app"), clitest.RunningPod("x", "db", "sql"))
	events.Add(clitest.NewEvent("x", "web", "Started", "up and away", time.Minute))
	got := a.Berth(t, "describe", "pod", "web", "-n", "x")
	if got.Code != 0 || strings.Count(got.Out, "Name:  ") != 1 || !strings.Contains(got.Out, "up and away") {
		t.Errorf("got %+v", got)
	}
	// Events of other pods are left out
	if got := a.Berth(t, "describe", "po", "pod/db-node-1"); got.Code != 0 || !strings.HasSuffix(got.Out, "Events:  <none>\n") {
		t.Errorf("got %+v", got)
	}
	// Two pods of the same name are both described
	if got := a.Berth(t, "describe", "pod", "web"); strings.Count(got.Out, "Name:  ") != 2 {
		t.Errorf("got %+v", got)
	}
	if got := a.Berth(t, "describe", "pod", "nope"); got != (clitest.Result{Code: 1, Stderr: "error: pod \"nope\" not found\n"}) {
		t.Errorf("got %+v", got)
	}
}

func TestDescribePodShowsWhatTheAgentKnows(t *testing.T) {
	a := clitest.StartAgent(t, root, clitest.WithInventory)
	web := clitest.RunningPod("x", "web", "app")
	web.Spec.Containers[0].ReadinessProbe = &v1.Probe{}
	a.Set([]pod.Refusal{{Origin: "/m/web.yaml", Pod: "x/web-node-1", Message: "bad", Kept: true}, {Origin: "/m/db.yaml", Pod: "x/db-node-1", Message: "other"}}, web)
	got := a.Berth(t, "describe", "pod", "web")
	for _, want := range []string{"HTTP 503", "Path:    /pods/x/data", "Refused:  /m/web.yaml: bad"} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("there is no %q in\n%s", want, got.Out)
		}
	}
	if strings.Contains(got.Out, "other") || strings.Contains(got.Out, "/srv") {
		t.Errorf("it tells of another pod:\n%s", got.Out)
	}
}

func TestRefusalsOf(t *testing.T) {
	all := []pod.Refusal{{Pod: "x/web-node-1", Message: "a"}, {Pod: "x/other", Message: "b"}, {Message: "c"}}
	if got := refusalsOf(clitest.RunningPod("x", "web"), all); len(got) != 1 || got[0].Message != "a" || len(all) != 3 {
		t.Errorf("got %+v", got)
	}
}
