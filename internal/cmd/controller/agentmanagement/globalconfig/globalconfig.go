// Package globalconfig loads the configuration from its ConfigMap whenever that changes.
//
//	ConfigMap fleet-controller ─► Parse ─► Store ─► listeners
package globalconfig

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleet-hub/fleet/internal/cmd/controller/hub"
	"github.com/fleet-hub/fleet/internal/config"
	"github.com/fleet-hub/fleet/internal/protocol/names"
	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// Reasons of the Events on the ConfigMap.
const (
	// reasonMalformed means that the configuration cannot be read. The running one is kept.
	reasonMalformed = "ConfigurationMalformed"
	// reasonIgnored means that the configuration was written for another version. The running one is kept.
	reasonIgnored = "ConfigurationIgnored"
	// reasonDropped means that one value is invalid and its default is used.
	reasonDropped = "ConfigurationValueDropped"
	// reasonLoaded means that the configuration is now in effect.
	reasonLoaded = "ConfigurationLoaded"
)

type handler struct {
	app *hub.App
	// seen means that the ConfigMap was seen. startedWith is the version of the configuration with which the process has
	// started, or nil if the ConfigMap had changed by then. It is not the version of the process if the image has another tag.
	seen        bool
	startedWith *string
}

// Register watches the ConfigMap.
func Register(ctx context.Context, a *hub.App) error {
	h := &handler{app: a}
	a.ConfigMaps.OnChange(hub.Lasting(ctx), "globalconfig", h.onChange)
	return nil
}

// onChange never returns an error, because retrying does not help with an invalid configuration.
func (h *handler) onChange(_ string, found *corev1.ConfigMap) (*corev1.ConfigMap, error) {
	if found == nil || found.Name != names.ControllerConfig || found.Namespace != h.app.Namespaces.System {
		return found, nil // deleting the ConfigMap changes nothing
	}
	parsed, warnings, err := config.Parse([]byte(found.Data[names.ConfigKey]), config.Default(h.app.Version))
	if refused := h.refuses(found, parsed, err); refused != nil {
		h.app.Log.Info("configuration ignored", "reason", refused.Error())
		h.app.Recorder.Event(found, corev1.EventTypeNormal, reasonIgnored, refused.Error())
		return found, nil
	}
	if err != nil {
		h.app.Log.Error("configuration malformed", "error", err)
		h.app.Recorder.Event(found, corev1.EventTypeWarning, reasonMalformed, fmt.Sprintf("%v; the running configuration is kept", err))
		return found, nil
	}
	if !h.app.Config.Set(parsed) {
		return found, nil // unchanged; its warnings were reported before
	}
	for _, warning := range warnings {
		h.app.Log.Warn("invalid configuration value ignored", "warning", warning)
		h.app.Recorder.Event(found, corev1.EventTypeWarning, reasonDropped, warning)
	}
	h.app.Log.Info("configuration loaded")
	h.app.Recorder.Event(found, corev1.EventTypeNormal, reasonLoaded, "the configuration is in effect")
	return found, nil
}

// refuses returns why a configuration is left to controllers of another version, or nil.
func (h *handler) refuses(found *corev1.ConfigMap, parsed config.Config, malformed error) error {
	written := found.Annotations[fleet.AnnotationVersion]
	if !h.seen && malformed == nil && reflect.DeepEqual(parsed, h.app.Config.Get()) {
		h.startedWith = &written
	}
	h.seen = true
	if h.startedWith != nil && *h.startedWith == written {
		return nil
	}
	return h.app.Config.Accepts(found.Annotations, h.app.Version)
}
