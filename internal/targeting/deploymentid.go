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
	options.Diff = nil
	options.CorrectDrift = nil
	var text bytes.Buffer
	if err := json.NewEncoder(&text).Encode(options); err != nil {
		return "", fmt.Errorf("encoding options: %w", err)
	}
	sum := sha256.Sum256(text.Bytes())
	return manifestID + ":" + hex.EncodeToString(sum[:]), nil
}
