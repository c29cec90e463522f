// Package globalconfig keeps the running configuration what its ConfigMap says.
//
//	ConfigMap fleet-controller ─► Parse ─► Store ─► whoever asked to be told
package globalconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
)

// Reasons of the Events on the ConfigMap.
const (
	// reasonMalformed means that the configuration cannot be read; the running one is kept.
	reasonMalformed = "ConfigurationMalformed"
	// reasonIgnored means that it was written for another version; the running one is kept.
	reasonIgnored = "ConfigurationIgnored"
	// reasonDropped means that one value cannot be used and its default is.
	reasonDropped = "ConfigurationValueDropped"
	// reasonLoaded means that it is the running one now.
	reasonLoaded = "ConfigurationLoaded"
)

type handler struct {
	app *hub.Context
}

// Register watches the ConfigMap.
func Register(ctx context.Context, a *hub.Context) error {
	h := &handler{app: a}
	a.ConfigMaps.OnChange(hub.Lasting(ctx), "globalconfig", h.onChange)
	return nil
}

// onChange never fails: a configuration that cannot be used is no better a moment later.
func (h *handler) onChange(_ string, found *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	if found == nil || found.Name != names.ControllerConfig || found.Namespace != h.app.Namespaces.System {
		return found, nil // deleting the ConfigMap changes nothing
	}
	if err := h.app.Config.Accepts(found.Annotations, h.app.Version); err != nil {
		h.app.Log.Info("configuration ignored", "reason", err.Error())
		h.app.Recorder.Event(found, corev1.EventTypeNormal, reasonIgnored, err.Error())
		return found, nil
	}
	parsed, warnings, err := config.Parse([]byte(found.Data[names.ConfigKey]), config.Default(h.app.Version))
	if err != nil {
		h.app.Log.Error("configuration malformed", "error", err)
		h.app.Recorder.Event(found, corev1.EventTypeWarning, reasonMalformed, fmt.Sprintf("%v; the running configuration is kept", err))
		return found, nil
	}
	if !h.app.Config.Set(parsed) {
		return found, nil // as it was; its warnings were given then
	}
	for _, warning := range warnings {
		h.app.Log.Warn("configuration", "warning", warning)
		h.app.Recorder.Event(found, corev1.EventTypeWarning, reasonDropped, warning)
	}
	h.app.Log.Info("configuration loaded")
	h.app.Recorder.Event(found, corev1.EventTypeNormal, reasonLoaded, "the configuration is in effect")
	return found, nil
}
