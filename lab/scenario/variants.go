package scenario

// Variants that several scenarios share: the message by which a write becomes final, and its reply. The client cannot
// tell the first two apart.
const (
	replyLost    = "the-reply-is-lost"
	requestLost  = "the-request-is-lost"
	beforeCommit = "killed-before-the-write-is-final"
	afterCommit  = "killed-after-the-write-is-final"
)
