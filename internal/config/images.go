package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// Images is how images are pulled, and when they go.
type Images struct {
	PullQPS, PullBurst int // 0: without a limit
	// GCHigh is the part of the disk, in percent, from which images are removed, and
	// GCLow what is left then.
	GCHigh, GCLow      int
	GCMinAge, GCMaxAge time.Duration // GCMaxAge 0: however old
	// Verify says which images that are there have to be asked for anew.
	Verify kubeletconfig.ImagePullCredentialsVerificationPolicy
	// Preloaded are the images that Verify makes exceptions for.
	Preloaded []string
	// ProviderConfig and ProviderBin are of the credential provider plugins. Empty: none.
	ProviderConfig, ProviderBin string
	// PullTimeout is how long a pull may go on without progress before the bundled runtime
	// gives it up. 0: the default of the runtime.
	PullTimeout time.Duration
}

const (
	defaultPullQPS   = 5
	defaultPullBurst = 10
	defaultGCHigh    = 85
	defaultGCLow     = 80
	defaultGCMinAge  = 2 * time.Minute
	minPullTimeout   = time.Second
)

func (f *Flags) addImages(set *pflag.FlagSet) {
	set.StringVar(&f.ProviderConfig, "image-credential-provider-config", "", "file with a CredentialProviderConfig, or folder of such files: plugins that know credentials for registries")
	set.StringVar(&f.ProviderBin, "image-credential-provider-bin-dir", "", "folder with the programs of those plugins")
	// An old flag of the kubelet had the same name and meaning.
	set.DurationVar(&f.PullTimeout, "image-pull-progress-deadline", 0,
		"how long nothing may come of an image before the bundled runtime gives up the pull, to try again later (default 1m)")
}

func (l *loader) images(f Flags, k *kubeletconfig.KubeletConfiguration) Images {
	c := Images{
		PullQPS: defaultPullQPS, PullBurst: first(int(k.RegistryBurst), defaultPullBurst),
		GCHigh:         l.percent("imageGCHighThresholdPercent", k.ImageGCHighThresholdPercent, defaultGCHigh),
		GCLow:          l.percent("imageGCLowThresholdPercent", k.ImageGCLowThresholdPercent, defaultGCLow),
		GCMinAge:       l.age("imageMinimumGCAge", k.ImageMinimumGCAge, defaultGCMinAge),
		GCMaxAge:       l.age("imageMaximumGCAge", k.ImageMaximumGCAge, 0),
		Verify:         first(k.ImagePullCredentialsVerificationPolicy, kubeletconfig.NeverVerifyPreloadedImages),
		Preloaded:      k.PreloadedImagesVerificationAllowlist,
		ProviderConfig: l.path("--image-credential-provider-config", f.ProviderConfig),
		ProviderBin:    l.path("--image-credential-provider-bin-dir", f.ProviderBin),
		PullTimeout:    f.PullTimeout,
	}
	if k.RegistryPullQPS != nil {
		c.PullQPS = l.atLeast("registryPullQPS", int(*k.RegistryPullQPS), 0)
	}
	l.atLeast("registryBurst", int(k.RegistryBurst), 0)
	if c.GCLow >= c.GCHigh {
		l.fail("imageGCLowThresholdPercent", fmt.Sprint(c.GCLow), "must be below imageGCHighThresholdPercent, which is %d", c.GCHigh)
	}
	if c.GCMaxAge > 0 && c.GCMaxAge <= c.GCMinAge {
		l.fail("imageMaximumGCAge", c.GCMaxAge.String(), "must be more than imageMinimumGCAge, which is %s", c.GCMinAge)
	}
	if (c.ProviderConfig == "") != (c.ProviderBin == "") {
		l.fail("--image-credential-provider-config", c.ProviderConfig, "goes together with --image-credential-provider-bin-dir")
	}
	if c.PullTimeout != 0 && c.PullTimeout < minPullTimeout {
		l.fail("--image-pull-progress-deadline", c.PullTimeout.String(), "must be at least %s", minPullTimeout)
	}
	if c.PullTimeout != 0 && first(f.RuntimeEndpoint, k.ContainerRuntimeEndpoint) != "" {
		l.fail("--image-pull-progress-deadline", c.PullTimeout.String(),
			"is for the bundled runtime: one that is given decides by itself (containerd by image_pull_progress_timeout in its own configuration)")
	}
	l.verify(c)
	return c
}

func (l *loader) verify(c Images) {
	switch c.Verify {
	case kubeletconfig.NeverVerify, kubeletconfig.NeverVerifyPreloadedImages, kubeletconfig.NeverVerifyAllowlistedImages, kubeletconfig.AlwaysVerify:
	default:
		l.fail("imagePullCredentialsVerificationPolicy", string(c.Verify), "must be NeverVerify, NeverVerifyPreloadedImages, NeverVerifyAllowlistedImages or AlwaysVerify")
	}
	const list = "preloadedImagesVerificationAllowlist"
	if len(c.Preloaded) > 0 && c.Verify != kubeletconfig.NeverVerifyAllowlistedImages {
		l.fail(list, c.Preloaded[0], "has an effect only if imagePullCredentialsVerificationPolicy is NeverVerifyAllowlistedImages")
	}
	for _, pattern := range c.Preloaded {
		named, err := reference.ParseNamed(strings.TrimSuffix(pattern, "/*"))
		if err != nil && !strings.HasSuffix(pattern, "/*") || err == nil && !reference.IsNameOnly(named) {
			l.fail(list, pattern, "want the full name of an image without tag and digest, or how it begins with /* at the end")
		}
	}
}

func (l *loader) percent(setting string, value *int32, otherwise int) int {
	if value == nil {
		return otherwise
	}
	if *value < 0 || *value > 100 {
		l.fail(setting, fmt.Sprint(*value), "must be between 0 and 100")
	}
	return int(*value)
}

func (l *loader) age(setting string, value metav1.Duration, otherwise time.Duration) time.Duration {
	if value.Duration < 0 {
		l.fail(setting, value.Duration.String(), "can't be below 0")
	}
	return first(value.Duration, otherwise)
}

// The numbers were int32 when they were read.
func (c Images) writeTo(k *kubeletconfig.KubeletConfiguration) {
	k.RegistryPullQPS, k.RegistryBurst = new(int32(c.PullQPS)), int32(c.PullBurst)
	k.ImageGCHighThresholdPercent, k.ImageGCLowThresholdPercent = new(int32(c.GCHigh)), new(int32(c.GCLow))
	k.ImageMinimumGCAge.Duration, k.ImageMaximumGCAge.Duration = c.GCMinAge, c.GCMaxAge
	k.ImagePullCredentialsVerificationPolicy, k.PreloadedImagesVerificationAllowlist = c.Verify, c.Preloaded
}
