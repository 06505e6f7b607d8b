package app

import (
	"context"
	"log/slog"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth/internal/config"
	"berth/internal/intake/objects"
	"berth/internal/intake/source"
	"berth/internal/lib/pod"
	"berth/internal/lib/secret"
)

// podSource sends what it has of pods.
type podSource interface {
	Run(ctx context.Context, out chan<- pod.Snapshot)
}

// newSources returns the sources that c asks for, and their names. What pods may refer
// to in their manifests is handed to set; fill completes a pod with what that says of it.
func newSources(c *config.Config, set func(context.Context, []runtime.Object), fill func(*v1.Pod) *v1.Pod, log *slog.Logger) ([]podSource, []string, error) {
	var sources []podSource
	var names []string
	if c.ManifestDir != "" {
		names = append(names, pod.SourceFile)
	}
	if c.ManifestURL != (secret.URL{}) {
		names = append(names, pod.SourceHTTP)
	}
	objects, err := objects.NewCollector(objects.CollectorConfig{Sources: names, Set: set, Log: log})
	if err != nil {
		return nil, nil, err
	}
	state := filepath.Join(c.RootDir, "sources")
	if c.ManifestDir != "" {
		s, err := source.NewFile(source.FileConfig{
			Path: c.ManifestDir, Node: c.NodeName, Every: c.ManifestCheck, State: filepath.Join(state, "file.json"), Log: log,
			Objects: objects.From(pod.SourceFile), Fill: fill,
		})
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, s)
	}
	if c.ManifestURL != (secret.URL{}) {
		s, err := source.NewHTTP(source.HTTPConfig{
			URL: c.ManifestURL, Header: c.ManifestHeaders, Node: c.NodeName, Every: c.URLCheck,
			State: filepath.Join(state, "http.json"), Log: log, Objects: objects.From(pod.SourceHTTP), Fill: fill,
		})
		if err != nil {
			return nil, nil, err
		}
		sources = append(sources, s)
	}
	return sources, names, nil
}
