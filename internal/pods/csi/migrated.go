package csi

import (
	"context"
	"slices"
	"strings"

	"k8s.io/csi-translation-lib/plugins"
)

// migratedPlugins is the value of the annotation storage.alpha.kubernetes.io/migrated-plugins of a
// CSINode: the volume plugins whose volumes this node translates to those of CSI drivers. Without it,
// the attach-detach controller of an older cluster would attach such volumes itself.
func migratedPlugins() string {
	names := []string{
		plugins.AWSEBSInTreePluginName, plugins.AzureDiskInTreePluginName, plugins.AzureFileInTreePluginName, plugins.CinderInTreePluginName,
		plugins.GCEPDInTreePluginName, plugins.PortworxVolumePluginName, plugins.VSphereInTreePluginName,
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

type migratedKey struct{}

// withMigrated returns a context in which the calls to a driver count as those for a migrated volume,
// which is a label of their metric.
func withMigrated(ctx context.Context, migrated bool) context.Context {
	return context.WithValue(ctx, migratedKey{}, migrated)
}

func isMigrated(ctx context.Context) bool {
	migrated, _ := ctx.Value(migratedKey{}).(bool)
	return migrated
}
