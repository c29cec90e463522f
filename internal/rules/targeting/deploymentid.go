package targeting

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// DeploymentID returns "<manifest ID>:<hash>". The hash covers the options after templating, including Helm values. It
// leaves out diff and correctDrift, which only control how the result is monitored, so changing them deploys nothing.
// It returns an error if the values cannot be expressed in JSON.
func DeploymentID(manifestID string, options fleet.BundleDeploymentOptions) (string, error) {
	id, _, err := deploymentID(manifestID, options)
	return id, err
}

// deploymentID returns the deployment ID and the length of the options as JSON.
func deploymentID(manifestID string, options fleet.BundleDeploymentOptions) (id string, length int, err error) {
	options.Diff = nil
	options.CorrectDrift = nil
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(options); err != nil {
		return "", 0, fmt.Errorf("encoding options: %w", err)
	}
	sum := sha256.Sum256(text.Bytes())
	return manifestID + ":" + hex.EncodeToString(sum[:]), text.Len(), nil
}
