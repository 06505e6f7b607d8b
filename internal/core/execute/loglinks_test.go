package execute

import (
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth/internal/runtime/render"
)

func TestOnlyLinksToOurLogsAreRemoved(t *testing.T) {
	e := &Executor{Config: Config{Host: Host{LogLinksDir: t.TempDir()}, Node: render.Node{LogsDir: "/logs"}}}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	targets := map[string]string{"ours": "/logs/shop_web_1/app/0.log", "theirs": "/other/logs/shop_web_1/app/0.log"}
	for id, target := range targets {
		if err := os.Symlink(target, e.logLink(p, "app", id)); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"ours", "theirs", "gone"} {
		if err := e.unlinkLog(p, "app", id); err != nil {
			t.Error(err)
		}
	}
	for id := range targets {
		if _, err := os.Lstat(e.logLink(p, "app", id)); (err == nil) != (id == "theirs") {
			t.Errorf("%s is there: %v", id, err == nil)
		}
	}
}
