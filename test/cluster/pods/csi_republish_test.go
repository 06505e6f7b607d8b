//go:build real

package pods

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth/test/cluster/kit"
)

// news is the file that the driver of the tests writes with each NodePublishVolume.
type news struct {
	calls  int
	tokens map[string]struct {
		Token   string
		Expires time.Time `json:"expirationTimestamp"`
	}
}

func readNews(text string) (n news, err error) {
	calls, tokens, _ := strings.Cut(text, "\n")
	if n.calls, err = strconv.Atoi(calls); err != nil {
		return news{}, err
	}
	return n, json.Unmarshal([]byte(tokens), &n.tokens)
}

func TestADriverBringsNewsToAContainerThatRuns(t *testing.T) {
	t.Parallel()
	l, admin := kit.SharedNamespace(t, "news")
	n := nodeOne(l)
	const name = "news.example.com"
	driver := startDriver(t, n, name, "-news")
	describeDriver(t, admin, name, storagev1.CSIDriverSpec{
		RequiresRepublish: new(true), TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}},
		FSGroupPolicy: new(storagev1.FileFSGroupPolicy), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral},
	})
	pods := podsOfDrivers(t, admin, "news")

	// given a container that reads what the driver wrote, as one who is not root
	pods.MustCreate(thirdParty("reader", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: name}}))
	p := pods.Await("reader", "ready", kit.IsReady)
	life := kit.InstanceOf(p)
	seen := 0
	// read returns the number of the last call that the container can see.
	read := func() (int, error) {
		text, err := kit.GetFromPod(t, n.Namespace, p, "/file?path=/disk/news")
		if err != nil {
			return 0, err // it is not given to the group yet
		}
		got, err := readNews(text)
		if of := got.tokens["vault"]; err == nil && (len(got.tokens) != 1 || strings.Count(of.Token, ".") != 2 || time.Until(of.Expires) < time.Minute) {
			t.Errorf("with call %d came %+v", got.calls, got.tokens)
		}
		return got.calls, err
	}
	awaitNews := func() {
		t.Helper()
		kit.Within(t, 2*time.Minute, func() error {
			calls, err := read()
			if err == nil && calls <= seen {
				err = fmt.Errorf("%d calls were seen before, and now it is %d", seen, calls)
			}
			if err == nil {
				seen = calls
			}
			return err
		})
	}
	awaitNews()

	// then there are news after a while, though nothing happens, and it can read them
	for {
		began := time.Now()
		awaitNews()
		if quiet := time.Since(began); quiet > 20*time.Second {
			t.Logf("news came by themselves after %s", quiet.Round(time.Second))
			break // before that, the pod was looked at because it had just started
		}
	}

	// when the driver is out of order at the next occasion, then the container goes on
	_, volume, _ := strings.Cut(driver.calls()[0], " ")
	volume, _, _ = strings.Cut(volume, " ")
	refuse := driver.in("refuse-" + volume)
	kit.Must(t, os.WriteFile(refuse, nil, 0o600))
	_, err := pods.Patch(t.Context(), "reader", types.MergePatchType, []byte(`{"metadata":{"annotations":{"look":"again"}}}`), metav1.PatchOptions{})
	kit.Must(t, err)
	kit.Within(t, kit.WaitTimeout, func() error {
		events, err := admin.CoreV1().Events("news").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=reader,reason=FailedMount"})
		if err != nil {
			return err
		}
		for i := range events.Items {
			if strings.Contains(events.Items[i].Message, "NodePublishVolume: not now (Unavailable)") {
				return nil
			}
		}
		return fmt.Errorf("the pod does not say why there are no news: %+v; the driver was asked for %q", events.Items, driver.calls())
	})
	p = pods.Await("reader", "ready", kit.IsReady)
	kit.MustKeepInstance(t, p, life)
	calls, err := read()
	if err != nil || calls < seen {
		t.Errorf("it lost what it had, and has call %d: %v", calls, err)
	}
	seen = calls

	// and when it is in order again, then news go on
	kit.Must(t, os.Remove(refuse))
	began := time.Now()
	awaitNews()
	t.Logf("news went on after %s", time.Since(began).Round(time.Second))
	p = pods.Await("reader", "ready", kit.IsReady)
	kit.MustKeepInstance(t, p, life)
}
