import Foundation
#if canImport(FoundationNetworking)
import FoundationNetworking
#endif
import XCTest
@testable import Fanfare

/// Against a real server, which test.sh starts: FANFARE_URL, and FANFARE_KEY, an API key with all scopes. FANFARE_LOSSY is
/// the same server behind a proxy that loses each second answer, and FANFARE_SILENT behind one whose connections fall silent.
final class ClientTests: XCTestCase {
    private let environment = ProcessInfo.processInfo.environment
    private var url: URL { URL(string: environment["FANFARE_URL"]!)! }
    private var key: String { environment["FANFARE_KEY"]! }

    /// A name of this test alone.
    private func fresh(_ name: String) -> String { "\(name)-\(UUID().uuidString)" }

    /// A call of the app's backend, which has an API key.
    @discardableResult
    private func backend(_ method: String, _ path: String, _ json: String? = nil) async throws -> Data {
        let key = self.key
        let client = Client(url: url, user: "nobody", token: { key })
        return try await client.call(method, path, body: json.map { Data($0.utf8) })
    }

    private func token(_ user: String, seconds: Int = 3600) async throws -> String {
        struct Answer: Decodable { let token: String }
        let body = "{\"scopes\": [\"devices\", \"chat\", \"buy\"], \"ttl_seconds\": \(seconds)}"
        return try JSONDecoder().decode(Answer.self, from: await backend("POST", "/v1/users/\(user)/tokens", body)).token
    }

    private func client(_ user: String, url: URL? = nil, attempts: Int = 5) async throws -> Client {
        let token = try await self.token(user)
        return Client(url: url ?? self.url, user: user, attempts: attempts, token: { token })
    }

    /// A chat of alice and a user.
    private func chat(with user: String, _ texts: String...) async throws -> String {
        let id = fresh("chat")
        try await backend("POST", "/v1/chats", "{\"id\": \"\(id)\", \"creator\": \"alice\", \"members\": [\"\(user)\"]}")
        for text in texts { try await say(text, in: id) }
        return id
    }

    private func say(_ text: String, in chat: String) async throws {
        try await backend("POST", "/v1/chats/\(chat)/messages", "{\"sender\": \"alice\", \"text\": \"\(text)\"}")
    }

    private func failure(_ call: () async throws -> Void) async -> Error? {
        do {
            try await call()
            return nil
        } catch {
            return error
        }
    }

    func testAPhoneAndItsSettings() async throws {
        let bob = try await client(fresh("bob"))
        let old = Client.hex(Data(repeating: 0xc0, count: 32)), new = Client.hex(Data(repeating: 0x0f, count: 32))
        try await bob.putDevice(old, topic: "com.example.shop", environment: .sandbox, locale: "en-GB")
        let device = try await bob.putDevice(new, topic: "com.example.shop", environment: .production, locale: "de-AT", replaces: old)
        XCTAssertEqual([device.token, device.environment, device.locale, device.state], [new, "production", "de-AT", "active"])
        try await bob.putOptOut("news")
        try await bob.putOptOut("ads")
        try await bob.deleteOptOut("ads")
        let until = Date(timeIntervalSince1970: 4_070_908_800)
        try await bob.putMute("chat:team", until: until)
        try await bob.putMute("chat:other")
        try await bob.deleteMute("chat:other")
        let settings = try await bob.getNotificationSettings()
        XCTAssertEqual(settings.optOuts, ["news"])
        XCTAssertEqual(settings.mutes.map(\.object), ["chat:team"])
        XCTAssertEqual(settings.mutes.first?.until, until)
        XCTAssertEqual(settings.devices.map(\.token), [new])
        try await bob.deleteDevice(new)
        let devices = try await bob.getNotificationSettings().devices
        XCTAssertTrue(devices.isEmpty)
    }

    func testABadge() async throws {
        let bob = try await client(fresh("bob"))
        var badge = try await bob.getBadge()
        XCTAssertEqual([badge.count, badge.version], [0, 0])
        XCTAssertNil(badge.since)
        let set = try await bob.putBadge(3, clear: true)
        for _ in 1...2 {
            badge = try await bob.postBadge(-1, idempotencyKey: "seen-1")
            XCTAssertEqual(badge.count, 2)
        }
        badge = try await bob.getBadge()
        XCTAssertEqual(badge.count, 2)
        XCTAssertEqual(badge.since, set.since)
        let refusal = await failure { try await bob.call("GET", "/v1/users/eve/badge") } as? Problem
        XCTAssertEqual(refusal?.code, "forbidden")
    }

    func testOpenedNotifications() async throws {
        struct Accepted: Decodable { let id: String }
        struct Report: Decodable {
            let state: String
            let opened, dismissed: Int
        }
        let name = fresh("bob"), type = fresh("photo")
        let bob = try await client(name), eve = try await client(fresh("eve"))
        let phone = Client.hex(Data(UUID().uuidString.utf8.prefix(32)))
        try await bob.putDevice(phone, topic: "com.example.shop", environment: .production)
        try await backend("PUT", "/v1/event-types/\(type)", "{\"title\": \"New photo\", \"opened\": true}")
        let posted = try await backend("POST", "/v1/events", "{\"type\": \"\(type)\", \"audience\": {\"users\": [\"\(name)\"]}}")
        let event = try JSONDecoder().decode(Accepted.self, from: posted).id
        var report = try JSONDecoder().decode(Report.self, from: await backend("GET", "/v1/events/\(event)"))
        for _ in 1...600 where report.state != "done" { // a minute at most
            try await Task.sleep(nanoseconds: 100_000_000)
            report = try JSONDecoder().decode(Report.self, from: await backend("GET", "/v1/events/\(event)"))
        }
        for _ in 1...2 { try await bob.postOpened(event, token: phone) }
        try await bob.postDismissed(event)
        report = try JSONDecoder().decode(Report.self, from: await backend("GET", "/v1/events/\(event)"))
        XCTAssertEqual([report.opened, report.dismissed], [1, 1])
        let refusal = await failure { try await eve.postOpened(event) } as? Problem
        XCTAssertEqual(refusal?.code, "not_found")
    }

    func testTopics() async throws {
        let bob = try await client(fresh("bob")), topic = fresh("news")
        let refusal = await failure { try await bob.joinTopic(topic) } as? Problem
        XCTAssertEqual(refusal?.code, "forbidden")
        try await backend("PUT", "/v1/topics/\(topic)", "{\"open\": true}")
        try await bob.joinTopic(topic)
        var topics = try await bob.listUserTopics(limit: 10).items.map(\.topic)
        XCTAssertEqual(topics, [topic])
        try await bob.leaveTopic(topic)
        topics = try await bob.listUserTopics().items.map(\.topic)
        XCTAssertEqual(topics, [])
    }

    func testAChat() async throws {
        let user = fresh("bob"), bob = try await client(user), team = try await chat(with: user, "hello")
        let chats = try await bob.listUserChats().items
        XCTAssertEqual(chats.map(\.unread), [1])
        let pending = try await bob.getPendingMessages(wait: 5, limit: 10)
        XCTAssertEqual(pending.chats.first?.items.map(\.text), ["hello"])
        let acked = try await bob.ackMessages([team: 1]).acked
        XCTAssertEqual(acked, [team: 1])
        for _ in 1...2 {
            let sent = try await bob.postMessage(team, "Thänk you", data: ["picture_id": "p1"], idempotencyKey: "send-1")
            XCTAssertEqual(sent.id, 2)
        }
        let own = try await bob.listMessages(team, after: 1).items
        XCTAssertEqual(own.first?.text, "Thänk you")
        XCTAssertEqual(own.first?.data, ["picture_id": "p1"])
        try await bob.deleteMessage(team, 2)
        let last = try await bob.listMessages(team, before: 3, limit: 1).items
        XCTAssertEqual(last.first?.redacted, true)
        try await bob.leaveChat(team)
        let gone = await failure { _ = try await bob.listMessages(team) } as? Problem
        XCTAssertEqual(gone?.status, 404)
    }

    func testASaleThatSellsOut() async throws {
        let user = fresh("bob"), bob = try await client(user), sale = fresh("spring")
        try await backend("PUT", "/v1/sales/\(sale)", """
            {"items": [{"sku": "a:1", "stock": 2}], "starts_at": "2026-01-01T00:00:00Z", "ends_at": "2099-01-01T00:00:00Z"}
            """)
        var left: [Int] = []
        for try await event in bob.streamSale(sale) {
            left.append(try event.decode(Stock.self).available["a:1"] ?? -1)
            if left.last == 0 { break }
            _ = try await bob.postReservation(sale, [.init(sku: "a:1", quantity: 1)], idempotencyKey: "cart-\(left.count)")
        }
        XCTAssertEqual(left, [2, 1, 0])
        let stubborn = try await client(user, attempts: 1_000_000)
        let problem = await failure { _ = try await stubborn.postReservation(sale, [.init(sku: "a:1", quantity: 1)]) } as? Problem
        XCTAssertEqual(problem?.code, "sold_out")
        XCTAssertEqual(problem?.retryable, true)
        let held = try await bob.postReservation(sale, [.init(sku: "a:1", quantity: 1)], idempotencyKey: "cart-1")
        let released = try await bob.releaseReservation(sale, held.id)
        XCTAssertEqual(released.state, "released")
        let present = try await bob.getSale(sale)
        XCTAssertEqual(present.items.map(\.available), [1])
    }

    func testLostAnswersChangeNothing() async throws {
        let user = fresh("bob"), team = try await chat(with: user)
        let bob = try await client(user, url: URL(string: environment["FANFARE_LOSSY"]!)!, attempts: 20)
        for i in 1...6 {
            let sent = try await bob.postMessage(team, String(i))
            XCTAssertEqual(sent.id, i)
        }
        let texts = try await client(user).listMessages(team, after: 0).items.map(\.text)
        XCTAssertEqual(texts, (1...6).map(String.init))
        let once = Client(url: URL(string: environment["FANFARE_LOSSY"]!)!, user: user, token: { try await self.token(user) })
        var lost = 0
        for _ in 1...4 {
            if let gone = await failure({ try await once.call("POST", "/v1/users/{user}/tickets") }) as? Disconnected {
                XCTAssertTrue(gone.mayHaveHappened)
                lost += 1
            }
        }
        XCTAssertGreaterThan(lost, 0, "what takes no key is repeated")
    }

    func testATokenIsRenewedOnce() async throws {
        let user = fresh("bob"), made = Counter()
        let bob = Client(url: url, user: user, token: { try await made.next() == 1 ? "ended" : self.token(user) })
        let chats = try await bob.getPendingMessages().chats
        XCTAssertTrue(chats.isEmpty)
        _ = try await bob.listUserChats()
        var count = await made.value
        XCTAssertEqual(count, 2)
        let wrong = Counter()
        let refused = Client(url: url, user: user, token: { "wrong\(await wrong.next())" })
        let problem = await failure { _ = try await refused.listUserChats() } as? Problem
        XCTAssertEqual(problem?.status, 401)
        count = await wrong.value
        XCTAssertEqual(count, 2)
        let nobody = await failure { _ = try await Client(url: self.url, user: user, token: { nil }).listUserChats() }
        XCTAssertTrue(nobody is LoggedOut)
    }

    func testAServerThatIsNotThereHasDoneNothing() async throws {
        let nowhere = Client(url: URL(string: "http://127.0.0.1:1")!, user: "bob", attempts: 2, token: { "t" })
        let gone = await failure { _ = try await nowhere.listUserChats() } as? Disconnected
        XCTAssertEqual(gone?.mayHaveHappened, false)
    }

    func testAStreamResumesOutlivesItsTokenAndEnds() async throws {
        let user = fresh("bob"), team = try await chat(with: user, "one", "two"), made = Counter(), cuts = Counter()
        var first: StreamEvent?
        for try await event in try await client(user).streamMessages() {
            first = event
            break
        }
        XCTAssertEqual(try first?.decode(Message.self).text, "one")
        let bob = Client(url: url, user: user, token: { try await made.next() < 3 ? self.token(user, seconds: 2) : nil })
        var texts: [String] = []
        let ended = await failure {
            for try await event in bob.streamMessages(StreamOptions(after: first?.id ?? "", onCut: { _ in Task { await cuts.next() } })) {
                texts.append(try event.decode(Message.self).text)
                if texts.count == 1 {
                    Task {
                        while await made.value < 2 { try await Task.sleep(nanoseconds: 50_000_000) }
                        try await self.say("three", in: team)
                    }
                }
            }
        }
        XCTAssertTrue(ended is LoggedOut, "\(String(describing: ended))")
        XCTAssertEqual(texts, ["two", "three"])
        let count = await cuts.value
        XCTAssertGreaterThanOrEqual(count, 1)
        let wrong = await failure { for try await _ in Client(url: self.url, user: user, token: { "wrong" }).streamMessages() {} } as? Problem
        XCTAssertEqual(wrong?.status, 401)
    }

    func testAStreamThatFallsSilentIsOpenedAgain() async throws {
        let user = fresh("bob"), team = try await chat(with: user, "0"), cuts = Counter()
        let token = try await self.token(user)
        let bob = Client(url: URL(string: environment["FANFARE_SILENT"]!)!, user: user, token: { token })
        var texts: [String] = []
        for try await event in bob.streamMessages(StreamOptions(silence: 2, onCut: { cut in Task { if "\(cut)".contains("silent") { await cuts.next() } } })) {
            texts.append(try event.decode(Message.self).text)
            if texts.count == 3 { break }
            let seen = await cuts.value, next = String(texts.count)
            Task {
                while await cuts.value == seen { try await Task.sleep(nanoseconds: 20_000_000) }
                try await self.say(next, in: team)
            }
        }
        XCTAssertEqual(texts, ["0", "1", "2"])
    }

    func testACancelledTaskEndsItsStream() async throws {
        let user = fresh("bob")
        _ = try await chat(with: user, "one")
        let bob = try await client(user), seen = Counter()
        let task = Task { for try await _ in bob.streamMessages() { await seen.next() } }
        while await seen.value == 0 { try await Task.sleep(nanoseconds: 20_000_000) }
        task.cancel()
        try await task.value
    }
}

actor Counter {
    private(set) var value = 0

    @discardableResult
    func next() -> Int {
        value += 1
        return value
    }
}

final class ParserTests: XCTestCase {
    func testEventsAreReadFromPiecesOfAnySize() {
        let text = ": hello\n\nretry: 1500\r\n\r\nid: 7\nevent: message\ndata: {\"a\":\r\ndata: 1}\n\nid: 8\n\rdata:ü\r\rdata\n\n: beat\n\nid: 9\n\ndata: late"
        let bytes = Data(text.utf8)
        let want = [
            EventParser.Raw(event: "message", data: "{\"a\":\n1}", id: "7"),
            EventParser.Raw(event: "message", data: "ü", id: "8"),
            EventParser.Raw(event: "message", data: "", id: "8"),
        ]
        for size in 1...bytes.count {
            var parser = EventParser(id: ""), got: [EventParser.Raw] = []
            for at in stride(from: 0, to: bytes.count, by: size) { got += parser.push(bytes[at..<min(at + size, bytes.count)]) }
            XCTAssertEqual(got, want)
            XCTAssertEqual(parser.id, "9")
            XCTAssertEqual(parser.retry, 1.5)
        }
    }

    func testParametersAreEscaped() {
        XCTAssertEqual(target("/v1/a/{b}/x", ["b": "b/c ?d"], ["e": "1&2", "f": nil]), "/v1/a/b%2Fc%20%3Fd/x?e=1%262")
    }

    func testRetryAfter() {
        XCTAssertEqual(Problem.wait("7"), 7)
        XCTAssertEqual(Problem.wait("Thu, 01 Jan 1970 00:00:00 GMT"), 0)
        XCTAssertNil(Problem.wait("soon"))
    }
}
