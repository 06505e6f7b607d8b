package volume

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestAVolumeIsMeasuredUntilItIsThere(t *testing.T) {
	w := newWorld(t)
	var seen []string
	w.cfg.OnSetUp = func(_ *v1.Pod, v *v1.Volume, _ time.Duration, err error) {
		seen = append(seen, fmt.Sprint(v.Name, " ", err == nil))
	}
	w.restart()
	p := podWith(configMapVolume("cfg"))

	// given one that is missing at first, when it is there, then later rounds do not count
	w.setupFails(p, "cfg")
	w.objects.configMaps["cfg"] = &v1.ConfigMap{Data: map[string]string{"a": "1"}}
	w.setup(p)
	w.setup(p)

	if want := []string{"vol false", "vol true"}; !slices.Equal(seen, want) {
		t.Errorf("seen: %q, want %q", seen, want)
	}
}
