package content

import "strings"

// SplitDeploymentID splits a deployment ID at its first colon into the name of the Content and the hash of the
// options. Without a colon, the whole ID is the name and the hash is empty. The name is empty for deployments without
// a Content.
func SplitDeploymentID(id string) (manifestID, optionsHash string) {
	manifestID, optionsHash, _ = strings.Cut(id, ":")
	return manifestID, optionsHash
}
