package apply

import "github.com/go-git/go-git/v5"

// head returns the commit of the git work tree that contains a folder, or empty if there is none.
func head(folder string) string {
	repository, err := git.PlainOpenWithOptions(folder, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if err != nil {
		return ""
	}
	reference, err := repository.Head()
	if err != nil {
		return ""
	}
	return reference.Hash().String()
}
