package targeting

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	fleet "github.com/fleet-hub/fleet/pkg/apis/fleet.cattle.io/v1alpha1"
)

// DeploymentID is "<manifest ID>:<hash>" with the hash of the options as they are
// after templating, Helm values included. What only says how to look at the result,
// diff and correctDrift, is no part of it: a change there deploys nothing. The error means that the values hold
// something that JSON cannot express.
func DeploymentID(manifestID string, options fleet.BundleDeploymentOptions) (string, error) {
	id, _, err := deploymentID(manifestID, options)
	return id, err
}

// deploymentID is DeploymentID, and how long the options are as JSON.
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
