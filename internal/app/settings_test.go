package app

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"berth/internal/config"
)

func TestSettingsOfAnotherVersionAreReadAsFarAsTheyGo(t *testing.T) {
	root := t.TempDir()
	if c, err := SavedSettings(root); c != nil || err != nil {
		t.Fatalf("have %v, %v", c, err)
	}
	had, err := Configuration(root, config.Flags{PodCIDR: "10.9.0.0/24"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	had.CgroupRoot, had.Bridge = "/elsewhere", "berth9"
	if err := SaveSettings(had); err != nil {
		t.Fatal(err)
	}
	c, err := SavedSettings(root)
	if err != nil || len(c.Warnings) > 0 || !reflect.DeepEqual(c, had) {
		t.Fatalf("have %+v, %v\nwant %+v", c, err, had)
	}

	// when another version of berth wrote them
	text, err := os.ReadFile(settingsPath(root))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), `"PodCIDR": "10.9.0.0/24"`, `"PodCIDR": ["10.9.0.0/24"], "Colour": {"a": "red"}`, 1)
	if err := os.WriteFile(settingsPath(root), []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err = SavedSettings(root)
	if err != nil || len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "PodCIDR") {
		t.Fatalf("have %+v, %v", c, err)
	}
	usual, err := Configuration(root, config.Flags{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.CgroupRoot != "/elsewhere" || c.Bridge != had.Bridge || c.PodCIDR != usual.PodCIDR || c.RootDir != root {
		t.Errorf("have %+v", c)
	}

	// What is damaged says what to do.
	if err := os.WriteFile(settingsPath(root), text[:len(text)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := SavedSettings(root); err == nil || !strings.Contains(err.Error(), "berth run") {
		t.Errorf("have %v", err)
	}
}
