// Package answers tells what an API server's error means for the object that was sent.
//
//	error ─► IsTooLarge, IsForObject ─► whether a user has to change the object
//	error ─► Message ─► text for a status
package answers
