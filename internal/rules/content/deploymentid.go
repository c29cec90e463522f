package content

import "strings"

// SplitDeploymentID takes a deployment ID apart: the name of the Content, and the
// hash of the options. They are separated by the first colon; without one the
// whole ID is the name and the hash is empty. The name is empty
// for deployments that have no Content.
func SplitDeploymentID(id string) (manifestID, optionsHash string) {
	manifestID, optionsHash, _ = strings.Cut(id, ":")
	return manifestID, optionsHash
}
