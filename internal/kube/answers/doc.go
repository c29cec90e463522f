// Package answers classifies an API server's error by what it means for the object of the request.
//
//	error ─► IsTooLarge, IsForObject ─► whether a user has to change the object
//	error ─► IsDeleted ─► whether the object is gone
//	error ─► Message ─► text for a status
package answers
