import Foundation

/// The user token in use, and the function that gets another one when it has ended.
actor Tokens {
    private let source: @Sendable () async throws -> String?
    private var current: String?
    private var asking: Task<String?, Error>?

    init(_ source: @escaping @Sendable () async throws -> String?) {
        self.source = source
    }

    /// The token; one call of the function for all that wait. Throws LoggedOut if there is none any more.
    func get() async throws -> String {
        if let current = current { return current }
        let task = asking ?? Task { [source] in try await source() }
        asking = task
        do {
            let fresh = try await task.value
            if asking == task { (asking, current) = (nil, fresh) }
            guard let token = fresh else { throw LoggedOut() }
            return token
        } catch let error as LoggedOut {
            throw error
        } catch {
            if asking == task { asking = nil }
            throw Disconnected(reason: "no user token: \(error.localizedDescription)", mayHaveHappened: false)
        }
    }

    func forget(_ token: String) {
        if current == token { current = nil }
    }
}
