package config

import (
	"strings"
	"testing"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

func loadImages(t *testing.T, f Flags, file string) (Images, error) {
	t.Helper()
	c, err := Load("/r", f, []byte("apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"+file), Machine{Hostname: "node", Processors: 2, WorkDir: "/w"})
	if err != nil {
		return Images{}, err
	}
	if len(c.NotHonoured) > 0 {
		t.Errorf("not honoured: %v", c.NotHonoured)
	}
	return c.Images, nil
}

func TestImagesHaveTheKubeletsDefaults(t *testing.T) {
	got, err := loadImages(t, Flags{}, "")
	if err != nil {
		t.Fatal(err)
	}
	if got.PullQPS != 5 || got.PullBurst != 10 || got.GCHigh != 85 || got.GCLow != 80 || got.GCMinAge != 2*time.Minute ||
		got.GCMaxAge != 0 || got.Verify != kubeletconfig.NeverVerifyPreloadedImages {
		t.Errorf("got %+v", got)
	}
}

func TestImageSettings(t *testing.T) {
	got, err := loadImages(t, Flags{ProviderConfig: "c.yaml", ProviderBin: "/bin"}, `
registryPullQPS: 0
registryBurst: 3
imageMinimumGCAge: 1m
imageMaximumGCAge: 24h
imageGCHighThresholdPercent: 50
imageGCLowThresholdPercent: 40
imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages
preloadedImagesVerificationAllowlist: [localhost/app, localhost/team/*, localhost/*]
`)
	if err != nil {
		t.Fatal(err)
	}
	if got.PullQPS != 0 || got.PullBurst != 3 || got.GCHigh != 50 || got.GCLow != 40 || got.GCMinAge != time.Minute || got.GCMaxAge != 24*time.Hour ||
		got.Verify != kubeletconfig.NeverVerifyAllowlistedImages || len(got.Preloaded) != 3 || got.ProviderConfig != "/w/c.yaml" || got.ProviderBin != "/bin" {
		t.Errorf("got %+v", got)
	}
}

func TestImageSettingsThatAreWrong(t *testing.T) {
	for file, want := range map[string]string{
		"registryPullQPS: -1":                                   "registryPullQPS",
		"registryBurst: -1":                                     "registryBurst",
		"imageGCHighThresholdPercent: 101":                      "between 0 and 100",
		"imageGCLowThresholdPercent: 85":                        "below imageGCHighThresholdPercent",
		"imageMinimumGCAge: -1s":                                "below 0",
		"imageMaximumGCAge: 1m":                                 "more than imageMinimumGCAge",
		"imagePullCredentialsVerificationPolicy: Sometimes":     "NeverVerify",
		"preloadedImagesVerificationAllowlist: [localhost/app]": "only if",
		"imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: ['localhost/app:1']": "without tag",
	} {
		if _, err := loadImages(t, Flags{}, file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", file, err, want)
		}
	}
	if _, err := loadImages(t, Flags{ProviderConfig: "/c"}, ""); err == nil || !strings.Contains(err.Error(), "bin-dir") {
		t.Errorf("got %v", err)
	}
}

func TestPullTimeout(t *testing.T) {
	if got, err := loadImages(t, Flags{PullTimeout: 5 * time.Minute}, ""); err != nil || got.PullTimeout != 5*time.Minute {
		t.Errorf("got %+v, %v", got, err)
	}
	for want, f := range map[string]Flags{
		"at least 1s":         {PullTimeout: time.Millisecond},
		"for the bundled":     {PullTimeout: time.Minute, RuntimeEndpoint: "unix:///run/x.sock"},
		"must be at least 1s": {PullTimeout: -time.Minute},
	} {
		if _, err := loadImages(t, f, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
