package app

import (
	"context"
	"path/filepath"

	"berth/internal/config"
	"berth/internal/intake/objects"
	"berth/internal/intake/source"
	"berth/internal/lib/pod"
	"berth/internal/lib/secret"
)

// podSource sends snapshots of the pods of one source.
type podSource interface {
	Run(ctx context.Context, out chan<- pod.Snapshot)
}

// sourceNames lists the sources of pods, in the order of newSources; the cluster comes last.
func sourceNames(d *deps) []string {
	names := localSourceNames(d.config)
	if d.cluster != nil {
		names = append(names, pod.SourceAPI)
	}
	return names
}

func localSourceNames(c *config.Config) []string {
	var names []string
	if c.ManifestDir != "" {
		names = append(names, pod.SourceFile)
	}
	if c.ManifestURL != (secret.URL{}) {
		names = append(names, pod.SourceHTTP)
	}
	return names
}

// newSources returns the configured sources. local receives the objects that manifests hold besides pods, and
// completes pods by them.
func newSources(d *deps, local *objects.Local) ([]podSource, error) {
	c, log := d.config, d.log
	collector, err := objects.NewCollector(objects.CollectorConfig{Sources: localSourceNames(c), Set: local.Set, Log: log})
	if err != nil {
		return nil, err
	}
	var sources []podSource
	state := c.StatePath("sources")
	if c.ManifestDir != "" {
		s, err := source.NewFile(source.FileConfig{
			Path: c.ManifestDir, Node: c.NodeName, Interval: c.ManifestCheck, State: filepath.Join(state, "file.json"), Log: log,
			Objects: collector.From(pod.SourceFile), Complete: local.WithOverhead, AbsentIsEmpty: c.ManifestDirOptional,
		})
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	if c.ManifestURL != (secret.URL{}) {
		s, err := source.NewHTTP(source.HTTPConfig{
			URL: c.ManifestURL, Header: c.ManifestHeaders, Node: c.NodeName, Interval: c.URLCheck,
			State: filepath.Join(state, "http.json"), Log: log, Objects: collector.From(pod.SourceHTTP), Complete: local.WithOverhead,
		})
		if err != nil {
			return nil, err
		}
		sources = append(sources, s)
	}
	if d.cluster != nil {
		sources = append(sources, d.cluster.pods)
	}
	return sources, nil
}
