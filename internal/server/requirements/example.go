package requirements

import "github.com/dragoman-mcp/dragoman/internal/server/requirements/store"

// Example returns a realistic set of objects: the requirements for software that books the meeting
// rooms of a company. The objects refer to each other with the ids that they get in an empty
// database.
func Example() store.Set {
	return store.Set{Items: exampleItems, Relations: exampleRelations, Comments: exampleComments, Prompts: examplePrompts}
}

var exampleItems = []store.Item{
	{Kind: store.Epic, Title: "Book a meeting room", Status: "in_progress", Priority: "high", Description: "Employees find a free room and book it, on their phones and in the calendar that they use anyway. Today they call the reception."},
	{Kind: store.Epic, Title: "Use rooms well", Status: "draft", Description: "A third of the booked rooms stays empty. The facility team wants to see why, and to free rooms that nobody uses."},
	{Kind: store.Epic, Title: "Run the service", Status: "in_progress", Description: "The operations team installs, watches and restores the service."},

	{Kind: store.Story, Parent: "EP-001", Title: "As an employee I want to find a free room so that I can meet my team", Status: "done", Priority: "high", Description: "By time, number of seats, building and equipment."},
	{Kind: store.Story, Parent: "EP-001", Title: "As an employee I want to book a room in my calendar so that I need no second program", Status: "in_progress", Priority: "high"},
	{Kind: store.Story, Parent: "EP-001", Title: "As an employee I want to cancel a booking so that others get the room", Status: "in_progress"},
	{Kind: store.Story, Parent: "EP-001", Title: "As an assistant I want to book for somebody else so that my manager need not do it", Status: "draft"},
	{Kind: store.Story, Parent: "EP-001", Title: "As a guest I want to find the room so that I am on time", Priority: "low", Description: "A link in the invitation shows the way."},
	{Kind: store.Story, Parent: "EP-002", Title: "As a facility manager I want rooms to become free when nobody comes so that others can use them", Status: "draft", Priority: "high"},
	{Kind: store.Story, Parent: "EP-002", Title: "As a facility manager I want to see how rooms are used so that I can plan", Status: "backlog"},
	{Kind: store.Story, Parent: "EP-003", Title: "As an operator I want to restore the bookings after a failure so that nobody loses a room", Status: "in_progress", Priority: "critical"},

	{Kind: store.Criterion, Parent: "US-001", Title: "A search for 6 seats shows no room with fewer seats", Status: "met"},
	{Kind: store.Criterion, Parent: "US-001", Title: "A room that is booked in the wanted time is not shown", Status: "met"},
	{Kind: store.Criterion, Parent: "US-001", Title: "Without a free room, the search shows the next free times", Status: "met"},
	{Kind: store.Criterion, Parent: "US-002", Title: "A room that is added to an event is booked within 5 seconds", Status: "failed", Description: "Measured with 50 events at the same time."},
	{Kind: store.Criterion, Parent: "US-002", Title: "Two people who book one room at the same time: one gets it, the other gets a suggestion"},
	{Kind: store.Criterion, Parent: "US-002", Title: "Moving the event moves the booking"},
	{Kind: store.Criterion, Parent: "US-003", Title: "Deleting the event frees the room at once", Status: "met"},
	{Kind: store.Criterion, Parent: "US-003", Title: "Only the owner and assistants of the owner can cancel"},
	{Kind: store.Criterion, Parent: "US-004", Title: "The owner sees who booked for them"},
	{Kind: store.Criterion, Parent: "US-006", Title: "15 minutes after the start without a check-in, the room is free"},
	{Kind: store.Criterion, Parent: "US-006", Title: "The owner gets a message 5 minutes before that"},
	{Kind: store.Criterion, Parent: "US-007", Title: "The report shows booked and used hours for each room and week"},
	{Kind: store.Criterion, Parent: "US-008", Title: "A restored database has every booking that was confirmed", Status: "met"},

	{Kind: store.Requirement, Parent: "US-001", Title: "The search returns its first page within 500 ms", Type: "non_functional", Status: "verified", Priority: "high", Description: "For 400 rooms and 20,000 bookings, at the 95th percentile."},
	{Kind: store.Requirement, Parent: "US-001", Title: "The search filters by time, seats, building and equipment", Type: "functional", Status: "verified", Priority: "high"},
	{Kind: store.Requirement, Parent: "US-002", Title: "The service accepts invitations to a room's address", Type: "interface", Status: "implemented", Priority: "high", Description: "iCalendar (RFC 5545) by mail and by CalDAV."},
	{Kind: store.Requirement, Parent: "AC-005", Title: "A room has at most one booking at any time", Type: "business_rule", Status: "implemented", Priority: "critical", Description: "Bookings from 9:00 to 10:00 and from 10:00 to 11:00 do not overlap."},
	{Kind: store.Requirement, Parent: "AC-004", Title: "A booking is confirmed within 5 seconds", Type: "non_functional", Status: "approved", Priority: "high"},
	{Kind: store.Requirement, Parent: "US-003", Title: "A cancelled booking stays in the history for 90 days", Type: "business_rule", Status: "approved"},
	{Kind: store.Requirement, Parent: "US-004", Title: "Owners choose their assistants", Type: "functional", Status: "review"},
	{Kind: store.Requirement, Parent: "US-005", Title: "The link to the way needs no sign-in", Type: "constraint", Priority: "low"},
	{Kind: store.Requirement, Parent: "US-006", Title: "A check-in works with the panel at the door and with the phone", Type: "interface", Status: "review", Priority: "high"},
	{Kind: store.Requirement, Parent: "US-007", Title: "Reports have no names of employees", Type: "constraint", Status: "approved", Priority: "critical", Description: "The works council agreed to reports by room only."},
	{Kind: store.Requirement, Parent: "US-008", Title: "A confirmed booking survives the loss of one data centre", Type: "non_functional", Status: "implemented", Priority: "critical"},
	{Kind: store.Requirement, Parent: "EP-003", Title: "The service is available in 99.9 % of the working hours", Type: "non_functional", Status: "approved", Priority: "high"},
	{Kind: store.Requirement, Parent: "EP-003", Title: "Employees sign in with the account of the company", Type: "interface", Status: "implemented", Priority: "high", Description: "OpenID Connect."},
	{Kind: store.Requirement, Title: "Fax requests are entered by the reception", Type: "functional", Status: "obsolete", Priority: "low"},
}

var exampleRelations = []store.Relation{
	{Source: "US-002", Type: "depends_on", Target: "US-001"},
	{Source: "US-006", Type: "depends_on", Target: "US-002"},
	{Source: "REQ-005", Type: "depends_on", Target: "REQ-003"},
	{Source: "REQ-004", Type: "derives_from", Target: "US-002"},
	{Source: "REQ-008", Type: "conflicts_with", Target: "REQ-013"},
	{Source: "REQ-010", Type: "blocks", Target: "US-007"},
	{Source: "REQ-011", Type: "relates_to", Target: "REQ-012"},
	{Source: "REQ-009", Type: "derives_from", Target: "AC-010"},
}

var exampleComments = []store.Comment{
	{Item: "AC-004", Author: store.User{Name: "Ines"}, Text: "The load test of 12 November took 7.2 s. The mail gateway waits for a virus scan."},
	{Item: "AC-004", Author: store.User{Name: "Tom"}, Text: "With CalDAV it takes 1.1 s. Shall we accept mail as the slow way?"},
	{Item: "REQ-008", Author: store.User{Name: "Ines"}, Text: "The security team wants a sign-in for everything. See REQ-013."},
	{Item: "US-006", Author: store.User{Name: "Fatima"}, Text: "15 minutes come from the survey of the facility team."},
	{Item: "REQ-014", Author: store.User{Name: "Tom"}, Text: "The fax was switched off in spring."},
}

var examplePrompts = []store.Prompt{
	{
		Name: "analyst", Title: "Requirements analyst", Active: true,
		Description: "You help a team to write and maintain requirements.",
		Content: `Refer to each object by its id, for example REQ-004.
Search before you create, so that nothing is entered twice.
A requirement says one thing, can be tested, and has a type. A user story names its user, its wish and its reason.
Read an item before you change it. Ask before you change a status or remove a relation.
Nothing is deleted: set the status cancelled or obsolete, and say why in a comment.`,
	},
	{
		Name: "reviewer", Title: "Reviewer", Description: "You review requirements and change nothing.",
		Content: `Look for requirements that cannot be tested, that contradict each other, or that nobody needs.
Write what you find as a comment on the item. Do not change the item.`,
	},
	{
		Name: "review-story", Title: "Review a user story", Description: "Checks a user story and its acceptance criteria.",
		Content: `Review the user story {{story}}. Is it small enough for one iteration? Do its acceptance criteria cover it, and can each be tested? Suggest criteria that are missing.`,
	},
	{
		Name: "write-tests", Title: "Write test cases", Description: "Derives test cases from a requirement.",
		Content: `Write test cases for {{requirement}} in the style {{style}}. Name the data of each case, and quote the id of the requirement in its title.`,
	},
}
